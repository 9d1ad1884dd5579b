# The study of priority tiers, as published and on the serving engine. The design `tiers` is part of every run; the
# target tiers_full simulates the whole design, which takes its time.


rule simulate_tiers:
    input:
        windows=tier_windows,
        code=code("servestudy.tiers.study"),
    output:
        cells="<results>/{design}/{model}/cells/{job}.parquet",
    log:
        "<logs>/simulate_tiers/{design}/{model}/{job}.log",
    benchmark:
        "<benchmarks>/simulate_tiers/{design}/{model}/{job}.tsv"
    wildcard_constraints:
        design=one_of(TIER_DESIGNS),
        model=one_of(TIER_MODELS),
        job="[A-Za-z0-9_.-]+",
    conda:
        "../../environment.yml"
    threads: 1
    params:
        options=lambda wildcards: TIER_JOBS[wildcards.design][wildcards.model][
            wildcards.job
        ],
        windows=lambda wildcards, input: (
            f"--windows {input.windows}" if input.windows else ""
        ),
    message:
        "Simulate {wildcards.job} of the tiers study, {wildcards.model} (progress: {log})"
    shell:
        "servestudy tiers {params.options} {params.windows} --out {output.cells} > {log} 2>&1"


rule analyse_tiers:
    input:
        cells=lambda wildcards: expand(
            "<results>/{design}/{model}/cells/{job}.parquet",
            design=wildcards.design,
            model=wildcards.model,
            job=TIER_JOBS[wildcards.design][wildcards.model],
        ),
        code=code("servestudy.tiers.speedups", "servestudy.tiers.gains"),
    output:
        metrics="<results>/{design}/{model}/metrics.parquet",
        speedups="<results>/{design}/{model}/speedups.parquet",
        gains="<results>/{design}/{model}/gains.parquet",
    log:
        "<logs>/analyse_tiers/{design}/{model}.log",
    benchmark:
        "<benchmarks>/analyse_tiers/{design}/{model}.tsv"
    wildcard_constraints:
        design=one_of(TIER_DESIGNS),
        model=one_of(TIER_MODELS),
    conda:
        "../../environment.yml"
    threads: 1
    message:
        "Compare the systems of the tiers study, {wildcards.model}"
    shell:
        "servestudy tiers-analyse --cells {input.cells} --metrics {output.metrics}"
        " --speedups {output.speedups} --gains {output.gains} > {log} 2>&1"


rule list_tier_requests:
    input:
        code=code("servestudy.tiers.study"),
    output:
        requests="<results>/{design}/serving/requests.parquet",
    log:
        "<logs>/list_tier_requests/{design}.log",
    benchmark:
        "<benchmarks>/list_tier_requests/{design}.tsv"
    wildcard_constraints:
        design=one_of(TIER_DESIGNS),
    conda:
        "../../environment.yml"
    threads: 1
    params:
        options=lambda wildcards: tier_request_options(wildcards.design),
    message:
        "List the latencies of each request, every system of the tiers study"
    shell:
        "servestudy tiers {params.options} --each-request --out {output.requests} > {log} 2>&1"


rule record_tier_timeline:
    input:
        code=code("servestudy.tiers.timeline"),
    output:
        spans="<results>/{design}/serving/timeline.parquet",
        trace="<results>/{design}/serving/timeline.json",
    log:
        "<logs>/record_tier_timeline/{design}.log",
    benchmark:
        "<benchmarks>/record_tier_timeline/{design}.tsv"
    wildcard_constraints:
        design=one_of(TIER_DESIGNS),
    conda:
        "../../environment.yml"
    threads: 1
    message:
        "Record one run of the multi-tier scheduler on four replicas of little memory"
    shell:
        "servestudy tiers-timeline --system ours --tiers 4 --requests 200 --load 0.9 --kv-blocks 128"
        " --trace {output.trace} --out {output.spans} > {log} 2>&1"


rule evaluate_tier_claims:
    input:
        claims="claims/tiers.yaml",
        tables=expand(
            "<results>/{{design}}/{model}/{analysis}.parquet",
            model=TIER_MODELS,
            analysis=TIER_ANALYSES,
        ),
        code=code("servestudy.claims"),
    output:
        csv="<results>/{design}/claims.csv",
    log:
        "<logs>/evaluate_tier_claims/{design}.log",
    benchmark:
        "<benchmarks>/evaluate_tier_claims/{design}.tsv"
    wildcard_constraints:
        design=one_of(TIER_DESIGNS),
    conda:
        "../../environment.yml"
    threads: 1
    params:
        run_dir=subpath(output.csv, parent=True),
    message:
        "Set the claims of the tiers study beside the values of this run: {output.csv}"
    shell:
        "servestudy claims --claims {input.claims} --run-dir {params.run_dir}"
        " --models published serving --title 'drawn requests' --out {output.csv} > {log} 2>&1"


rule draw_tier_figure:
    input:
        unpack(
            lambda wildcards: tier_tables(
                TIER_FIGURES[wildcards.figure], wildcards.design
            )
        ),
        code=lambda wildcards: code(TIER_FIGURES[wildcards.figure].module),
        style=package_file("plotting/servestudy.mplstyle"),
    output:
        svg=report(
            "<figures>/{design}/{figure}.svg",
            caption="../report/tiers.rst",
            category="4 Tiers",
            subcategory="Figures",
            labels=lambda wildcards: {"figure": words(wildcards.figure)},
        ),
        pdf="<figures>/{design}/{figure}.pdf",
    log:
        "<logs>/draw_tier_figure/{design}/{figure}.log",
    benchmark:
        "<benchmarks>/draw_tier_figure/{design}/{figure}.tsv"
    wildcard_constraints:
        design=one_of(TIER_DESIGNS),
        figure=one_of(TIER_FIGURES),
    conda:
        "../../environment.yml"
    threads: 1
    params:
        tables=lambda wildcards, input: [
            f"{table}={input[table]}" for table in TIER_FIGURES[wildcards.figure].reads
        ],
        model=lambda wildcards: tier_models(TIER_FIGURES[wildcards.figure]),
    message:
        "Draw {output.svg}"
    shell:
        "servestudy figure {wildcards.figure} --tables {params.tables} --title 'drawn requests'"
        " --model {params.model:q} --out {output.svg} {output.pdf} > {log} 2>&1"


rule write_tier_table:
    input:
        unpack(
            lambda wildcards: tier_tables(
                TIER_TABLES[wildcards.table], wildcards.design
            )
        ),
        code=lambda wildcards: code(TIER_TABLES[wildcards.table].module),
    output:
        csv="<tables>/{design}/{table}.csv",
    log:
        "<logs>/write_tier_table/{design}/{table}.log",
    benchmark:
        "<benchmarks>/write_tier_table/{design}/{table}.tsv"
    wildcard_constraints:
        design=one_of(TIER_DESIGNS),
        table=one_of(TIER_TABLES),
    conda:
        "../../environment.yml"
    threads: 1
    params:
        tables=lambda wildcards, input: [
            f"{name}={input[name]}" for name in TIER_TABLES[wildcards.table].reads
        ],
    message:
        "Write {output.csv}"
    shell:
        "servestudy table {wildcards.table} --tables {params.tables} --title 'drawn requests'"
        " --model 'published and serving' --out {output.csv} > {log} 2>&1"


rule tiers:
    input:
        tier_outputs("tiers"),


rule tiers_full:
    input:
        tier_outputs("tiers_full"),
