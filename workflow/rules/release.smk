# What a run made, with content hashes: two runs of the same inputs agree.


rule write_manifest:
    input:
        windows=expand(
            "<results>/windows/{source}.{ext}",
            source=CONFIG["sources"],
            ext=["parquet", "csv"],
        ),
        longer=expand(
            "<results>/windows/longer/{source}.parquet", source=CONFIG["sources"]
        ),
        index="<results>/windows/index.csv",
        calibration=expand(
            "<results>/calibration/{model}/{source}.parquet",
            model=CONFIG["models"],
            source=CONFIG["sources"],
        ),
        cells=rules.cells.input,
        variants=rules.variants.input,
        statistics=rules.statistics.input,
        figures=rules.figures.input,
        tables=rules.tables.input,
        claims=rules.claims.input,
        audit=rules.audit.input,
        tiers=rules.tiers.input,
        spotcheck=[rules.analyse_spotcheck.output, rules.spotcheck.input],
        code=code("servestudy.manifest"),
    output:
        manifest="<results>/manifest.json",
    log:
        "<logs>/write_manifest.log",
    conda:
        "../../environment.yml"
    threads: 1
    message:
        "Write the content hashes of all outputs to {output.manifest}"
    shell:
        "servestudy manifest --out {output.manifest} {input.windows} {input.longer} {input.index} {input.calibration}"
        " {input.cells} {input.variants} {input.statistics} {input.figures} {input.tables}"
        " {input.claims} {input.audit} {input.tiers} {input.spotcheck} > {log} 2>&1"
