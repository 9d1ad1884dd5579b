# Analyses: one table each, from the cells of one engine model or from the windows alone.


rule analyse_cells:
    input:
        cells=lambda wildcards: cells_of(wildcards.model),
        index=lambda wildcards: (
            "<results>/windows/index.csv"
            if ANALYSES[wildcards.analysis].reads_window_index
            else []
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
            for name in schedulers_of(wildcards.model)
            if SCHEDULERS[name]["primary"]
            or not ANALYSES[wildcards.analysis].primary_only
        ],
        index=lambda wildcards, input: (
            f"--window-index {input.index}" if input.index else ""
        ),
        # Not in the command, which reads them from the registry: another family is a reason to run again.
        families=lambda wildcards: (
            {
                name: SCHEDULERS[name]["family"]
                for name in schedulers_of(wildcards.model)
            }
            if ANALYSES[wildcards.analysis].reads_families
            else {}
        ),
    message:
        "Analyse {wildcards.analysis} ({wildcards.model} model)"
    shell:
        "servestudy statistics {wildcards.analysis} --cells {input.cells}"
        " --schedulers {params.schedulers} {params.index} --out {output.table} > {log} 2>&1"


rule analyse_windows:
    input:
        windows=expand("<results>/windows/{source}.parquet", source=CONFIG["sources"]),
        index="<results>/windows/index.csv",
        code=lambda wildcards: code(
            WORKLOAD_ANALYSES[wildcards.workload_analysis].module
        ),
    output:
        table="<results>/statistics/{workload_analysis}.parquet",
    log:
        "<logs>/analyse_windows/{workload_analysis}.log",
    benchmark:
        "<benchmarks>/analyse_windows/{workload_analysis}.tsv"
    wildcard_constraints:
        workload_analysis=one_of(WORKLOAD_ANALYSES),
    conda:
        "../../environment.yml"
    threads: 1
    message:
        "Analyse the windows: {wildcards.workload_analysis}"
    shell:
        "servestudy workload {wildcards.workload_analysis} --windows {input.windows}"
        " --window-index {input.index} --out {output.table} > {log} 2>&1"


rule statistics:
    input:
        expand(
            "<results>/statistics/{model}/{analysis}.parquet",
            model=CONFIG["models"],
            analysis=ANALYSES,
        ),
        expand(
            "<results>/statistics/{model}/{analysis}.parquet",
            model=VARIANT_MODELS,
            analysis=VARIANT_ANALYSES,
        ),
        expand("<results>/statistics/{analysis}.parquet", analysis=WORKLOAD_ANALYSES),
