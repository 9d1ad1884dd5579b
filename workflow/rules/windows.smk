# Windows: 200 consecutive requests each, frozen once and used by every later step.


rule freeze_windows:
    input:
        trace=lambda wildcards: raw_trace(wildcards.source),
        code=code("servestudy.windows.freeze"),
    output:
        windows="<results>/windows/{source}.parquet",
        index="<results>/windows/{source}.csv",
        longer="<results>/windows/longer/{source}.parquet",
    log:
        "<logs>/freeze_windows/{source}.log",
    benchmark:
        "<benchmarks>/freeze_windows/{source}.tsv"
    conda:
        "../../environment.yml"
    threads: 1
    params:
        stage0=CONFIG["windows"]["stage0"],
        extension=CONFIG["windows"]["extension"],
        max_bad_share=CONFIG["traces"]["max_bad_share"],
        registered=lambda wildcards: registered(wildcards.source),
    message:
        "Freeze the windows of {wildcards.source} (progress: {log})"
    shell:
        "servestudy freeze --source {wildcards.source} --trace {input.trace}"
        " --stage0-windows {params.stage0} --extension-windows {params.extension}"
        " --max-bad-share {params.max_bad_share}"
        " --out {output.windows} --index {output.index} --longer {output.longer} > {log} 2>&1"


rule index_windows:
    input:
        indexes=expand("<results>/windows/{source}.csv", source=CONFIG["sources"]),
        code=code("servestudy.windows.freeze"),
    output:
        index="<results>/windows/index.csv",
    log:
        "<logs>/index_windows.log",
    benchmark:
        "<benchmarks>/index_windows.tsv"
    conda:
        "../../environment.yml"
    threads: 1
    message:
        "List the windows of all sources in {output.index}"
    shell:
        "servestudy window-index --out {output.index} {input.indexes} > {log} 2>&1"
