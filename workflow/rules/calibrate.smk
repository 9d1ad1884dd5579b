# The reference load of each window, from which the six load regions follow.


rule calibrate_windows:
    input:
        windows="<results>/windows/{source}.parquet",
        code=lambda wildcards: code(f"servestudy.{wildcards.model}_model"),
        settings=lambda wildcards: model_settings(wildcards.model),
    output:
        calibration="<results>/calibration/{model}/{source}.parquet",
    log:
        "<logs>/calibrate_windows/{model}/{source}.log",
    benchmark:
        "<benchmarks>/calibrate_windows/{model}/{source}.tsv"
    conda:
        "../../environment.yml"
    threads: 1
    params:
        model=lambda wildcards, input: model_arguments(wildcards.model, input),
        rules=lambda wildcards: model_rules(wildcards.model),
    message:
        "Calibrate the load of the windows of {wildcards.source} (progress: {log})"
    shell:
        "servestudy calibrate {params.model} --windows {input.windows}"
        " --out {output.calibration} > {log} 2>&1"
