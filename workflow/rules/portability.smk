# The cells of the portability study: one job a model, source and scheduler, never one a cell.


rule simulate_cells:
    input:
        windows="<results>/windows/{source}.parquet",
        calibration="<results>/calibration/{model}/{source}.parquet",
        code=lambda wildcards: code(
            "servestudy.simulation", f"servestudy.{wildcards.model}_model"
        ),
        scheduler=lambda wildcards: scheduler_code(wildcards.scheduler, wildcards.model),
        settings=lambda wildcards: model_settings(wildcards.model),
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
        repetitions=lambda wildcards: REPETITIONS[wildcards.model],
        model=lambda wildcards, input: model_arguments(wildcards.model, input),
        rules=lambda wildcards: model_rules(wildcards.model),
        scheduler=lambda wildcards: SCHEDULERS[wildcards.scheduler]["class"][
            wildcards.model
        ],
    message:
        "Simulate {wildcards.scheduler} on {wildcards.source} (progress: {log})"
    shell:
        "servestudy simulate {params.model} --scheduler {wildcards.scheduler}"
        " --windows {input.windows} --calibration {input.calibration}"
        " --repetitions {params.repetitions} --out {output.cells} > {log} 2>&1"


rule cells:
    input:
        [cells_of(model) for model in CONFIG["models"]],
