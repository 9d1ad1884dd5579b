# The cells of the portability study: one job a model, source and scheduler, never one a cell.


rule simulate_cells:
    input:
        windows="<results>/windows/{source}.parquet",
        calibration="<results>/calibration/{model}/{source}.parquet",
        code=code("servestudy.simulation"),
        scheduler=lambda wildcards: scheduler_code(wildcards.scheduler),
    output:
        cells="<results>/cells/{model}/{source}/{scheduler}.parquet",
    log:
        "<logs>/simulate_cells/{model}/{source}/{scheduler}.log",
    benchmark:
        "<benchmarks>/simulate_cells/{model}/{source}/{scheduler}.tsv"
    conda:
        "../../environment.yml"
    threads: 1
    params:
        repetitions=CONFIG["repetitions"],
        scheduler=lambda wildcards: SCHEDULERS[wildcards.scheduler]["class"],
    message:
        "Simulate {wildcards.scheduler} on {wildcards.source} (progress: {log})"
    shell:
        "servestudy simulate --model {wildcards.model} --scheduler {wildcards.scheduler}"
        " --windows {input.windows} --calibration {input.calibration}"
        " --repetitions {params.repetitions} --out {output.cells} > {log} 2>&1"


rule cells:
    input:
        expand(
            "<results>/cells/{model}/{source}/{scheduler}.parquet",
            model=CONFIG["models"],
            source=CONFIG["sources"],
            scheduler=CONFIG["schedulers"],
        ),
