# Analyses: one table each, from the cells of one engine model.


rule analyse_cells:
    input:
        cells=expand(
            "<results>/cells/{{model}}/{source}/{scheduler}.parquet",
            source=CONFIG["sources"],
            scheduler=CONFIG["schedulers"],
        ),
        code=lambda wildcards: code(ANALYSES[wildcards.analysis].module),
    output:
        table="<results>/statistics/{model}/{analysis}.parquet",
    log:
        "<logs>/analyse_cells/{model}/{analysis}.log",
    benchmark:
        "<benchmarks>/analyse_cells/{model}/{analysis}.tsv"
    conda:
        "../../environment.yml"
    threads: 1
    params:
        schedulers=lambda wildcards: [
            name
            for name in CONFIG["schedulers"]
            if SCHEDULERS[name]["primary"]
            or not ANALYSES[wildcards.analysis].primary_only
        ],
    message:
        "Analyse {wildcards.analysis} ({wildcards.model} model)"
    shell:
        "servestudy statistics {wildcards.analysis} --cells {input.cells}"
        " --schedulers {params.schedulers} --out {output.table} > {log} 2>&1"


rule statistics:
    input:
        expand(
            "<results>/statistics/{model}/{analysis}.parquet",
            model=CONFIG["models"],
            analysis=ANALYSES,
        ),
