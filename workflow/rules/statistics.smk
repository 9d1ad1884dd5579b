# From cells to rankings, and from rankings to their agreement.


rule rank_schedulers:
    input:
        cells=expand(
            "<results>/cells/{{model}}/{source}/{scheduler}.parquet",
            source=CONFIG["sources"],
            scheduler=CONFIG["schedulers"],
        ),
        code=code("servestudy.statistics.ranking"),
    output:
        ranking="<results>/statistics/{model}/ranking.parquet",
    log:
        "<logs>/rank_schedulers/{model}.log",
    benchmark:
        "<benchmarks>/rank_schedulers/{model}.tsv"
    conda:
        "../../environment.yml"
    threads: 1
    message:
        "Rank the schedulers by each metric ({wildcards.model} model)"
    shell:
        "servestudy statistics ranking --cells {input.cells} --out {output.ranking} > {log} 2>&1"


rule compare_rankings:
    input:
        ranking="<results>/statistics/{model}/ranking.parquet",
        code=code("servestudy.statistics.agreement"),
    output:
        agreement="<results>/statistics/{model}/agreement.parquet",
    log:
        "<logs>/compare_rankings/{model}.log",
    benchmark:
        "<benchmarks>/compare_rankings/{model}.tsv"
    conda:
        "../../environment.yml"
    threads: 1
    params:
        schedulers=[
            name for name in CONFIG["schedulers"] if SCHEDULERS[name]["primary"]
        ],
    message:
        "Compare the rankings of each pair of sources ({wildcards.model} model)"
    shell:
        "servestudy statistics agreement --ranking {input.ranking}"
        " --schedulers {params.schedulers}"
        " --out {output.agreement} > {log} 2>&1"


rule statistics:
    input:
        expand("<results>/statistics/{model}/ranking.parquet", model=CONFIG["models"]),
        expand("<results>/statistics/{model}/agreement.parquet", model=CONFIG["models"]),
