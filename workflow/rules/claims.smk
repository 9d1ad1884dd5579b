# The claims of the study: reported values beside those of this run, with verdicts that are computed.


rule evaluate_claims:
    input:
        claims="claims/portability.yaml",
        statistics=rules.statistics.input,
        spotcheck=rules.analyse_spotcheck.output,
        fifo=expand(
            "<results>/cells/{model}/{source}/fifo.parquet",
            model=CONFIG["models"],
            source=CONFIG["sources"] if "fifo" in CONFIG["schedulers"] else [],
        ),
        code=code("servestudy.claims"),
    output:
        csv="<results>/claims.csv",
    log:
        "<logs>/evaluate_claims.log",
    benchmark:
        "<benchmarks>/evaluate_claims.tsv"
    conda:
        "../../environment.yml"
    threads: 1
    params:
        run_dir=subpath(output.csv, parent=True),
        models=CONFIG["models"],
        title=CONFIG["title"],
    message:
        "Set the study's claims beside the values of this run: {output.csv}"
    shell:
        "servestudy claims --claims {input.claims} --run-dir {params.run_dir} --models {params.models}"
        " --title {params.title:q} --out {output.csv} > {log} 2>&1"


rule claims:
    input:
        rules.evaluate_claims.output.csv,
