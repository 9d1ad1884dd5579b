# Variants of the run, all simulated again: other SLO multipliers, other numbers of requests per window.


rule simulate_slo:
    input:
        windows="<results>/windows/{source}.parquet",
        calibration="<results>/calibration/{model}/{source}.parquet",
        cells=expand(
            "<results>/cells/{{model}}/{{source}}/{scheduler}.parquet",
            scheduler=PRIMARY_SCHEDULERS,
        ),
        code=code("servestudy.slo_variants"),
        schedulers=lambda wildcards: [
            path
            for name in PRIMARY_SCHEDULERS
            for path in scheduler_code(name, wildcards.model)
        ],
    output:
        expand(
            "<results>/slo/{{model}}/{multiplier}/{{source}}.parquet",
            multiplier=NUMBERS["slo"],
        ),
    log:
        "<logs>/simulate_slo/{model}/{source}.log",
    benchmark:
        "<benchmarks>/simulate_slo/{model}/{source}.tsv"
    conda:
        "../../environment.yml"
    threads: 1
    params:
        schedulers=PRIMARY_SCHEDULERS,
        out=lambda wildcards, output: numbered(output),
        rules=RULE_SETTINGS,
        rule_values=RULES,
    message:
        "Simulate {wildcards.source} under other SLO multipliers (progress: {log})"
    shell:
        "servestudy simulate-slo {params.rules} --windows {input.windows}"
        " --calibration {input.calibration} --cells {input.cells}"
        " --schedulers {params.schedulers} --out {params.out} > {log} 2>&1"


rule simulate_window_sizes:
    input:
        windows="<results>/windows/longer/{source}.parquet",
        code=code("servestudy.window_sizes"),
        schedulers=lambda wildcards: [
            path
            for name in PRIMARY_SCHEDULERS
            for path in scheduler_code(name, wildcards.model)
        ],
    output:
        expand(
            "<results>/window_sizes/{{model}}/{requests}/{{source}}.parquet",
            requests=NUMBERS["window_sizes"],
        ),
    log:
        "<logs>/simulate_window_sizes/{model}/{source}.log",
    benchmark:
        "<benchmarks>/simulate_window_sizes/{model}/{source}.tsv"
    conda:
        "../../environment.yml"
    threads: 1
    params:
        schedulers=PRIMARY_SCHEDULERS,
        regions=CONFIG["sensitivity"]["window_regions"],
        out=lambda wildcards, output: numbered(output),
        rules=RULE_SETTINGS,
        rule_values=RULES,
    message:
        "Simulate {wildcards.source} with other window sizes (progress: {log})"
    shell:
        "servestudy simulate-window-sizes {params.rules} --windows {input.windows}"
        " --schedulers {params.schedulers} --regions {params.regions}"
        " --out {params.out} > {log} 2>&1"


rule analyse_variants:
    input:
        cells=expand(
            "<results>/cells/{{model}}/{source}/{scheduler}.parquet",
            source=CONFIG["sources"],
            scheduler=PRIMARY_SCHEDULERS,
        ),
        variants=lambda wildcards: variant_cells(
            VARIANT_ANALYSES[wildcards.variant_analysis].variants, wildcards.model
        ),
        reversals=lambda wildcards: (
            "<results>/statistics/{model}/reversals.parquet"
            if VARIANT_ANALYSES[wildcards.variant_analysis].reads_reversals
            else []
        ),
        code=lambda wildcards: code(VARIANT_ANALYSES[wildcards.variant_analysis].module),
    output:
        table="<results>/statistics/{model}/{variant_analysis}.parquet",
    log:
        "<logs>/analyse_variants/{model}/{variant_analysis}.log",
    benchmark:
        "<benchmarks>/analyse_variants/{model}/{variant_analysis}.tsv"
    wildcard_constraints:
        variant_analysis=one_of(VARIANT_ANALYSES),
    conda:
        "../../environment.yml"
    threads: 1
    params:
        schedulers=PRIMARY_SCHEDULERS,
        variants=lambda wildcards, input: numbered(input.variants),
        reversals=lambda wildcards, input: (
            f"--reversals {input.reversals}" if input.reversals else ""
        ),
    message:
        "Analyse {wildcards.variant_analysis} ({wildcards.model} model)"
    shell:
        "servestudy sensitivity {wildcards.variant_analysis} --cells {input.cells}"
        " --variants {params.variants} --schedulers {params.schedulers} {params.reversals}"
        " --out {output.table} > {log} 2>&1"


rule variants:
    input:
        [variant_cells(kind, VARIANT_MODELS) for kind in NUMBERS],
