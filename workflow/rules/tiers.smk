# The study of priority tiers, as published and on the serving engine. The design `tiers` is part of every run; the
# target tiers_full simulates the whole design, which takes its time.

TIER_DESIGNS = {"tiers": CONFIG["tiers"]["default"], "tiers_full": CONFIG["tiers"]["full"]}
TIER_MODELS = ["published", "serving"]
TIER_ANALYSES = ["metrics", "speedups", "gains"]
SERVING_BASELINES = [
    "infaas_vllm",
    "round_robin_vllm",
    "least_outstanding_vllm",
    "round_robin_orca",
    "round_robin_sarathi",
    "llumnix24",
]


def tier_options(cells, **other):
    """Options of `servestudy tiers` for one part of a design."""
    names = {"kv_blocks": "kv-blocks"}
    values = cells | other
    return " ".join(
        f"--{names.get(key, key)} {' '.join(map(str, values[key]))}" for key in values
    )


def tier_jobs(design):
    """Options of each job, by model and name."""
    parts = TIER_DESIGNS[design]
    of_study = ["infaas_vllm", "ours_one_tier"]
    ablated = {"tiers": parts["ablations"]["tiers"]}
    first_volume = {"requests": parts["published"]["requests"][:1]}
    one_mix = {"mixes": parts["paired"]["mixes"][:1]}
    jobs = {
        "published": {
            "references": tier_options(parts["published"], systems=of_study),
            "ours": tier_options(parts["published"], systems=["ours"]),
            "paired": tier_options(
                parts["paired"],
                systems=[*of_study, "ours"],
                set=["streams=separate"],
            ),
            "fixed": tier_options(
                {"tiers": range(1, 11)},
                preset=["fixed"],
                systems=[
                    "ours",
                    "round_robin_vllm",
                    "round_robin_orca",
                    "round_robin_sarathi",
                ],
            ),
        },
        "serving": {
            "baselines": tier_options(
                parts["serving"], preset=["serving"], systems=SERVING_BASELINES
            ),
            "ours": tier_options(
                parts["serving"], preset=["serving"], systems=["ours", "ours_one_tier"]
            ),
        },
    }
    if parts["ablations"]["published"]:
        jobs["published"]["ablations"] = tier_options(
            parts["published"] | ablated | one_mix | first_volume,
            systems=[*of_study, "ours"],
            variants=parts["ablations"]["published"],
        )
    if parts["ablations"]["serving"]:
        jobs["serving"]["ablations"] = tier_options(
            parts["serving"] | ablated | one_mix,
            preset=["serving"],
            systems=["ours", "ours_one_tier"],
            variants=parts["ablations"]["serving"],
        )
    for source in CONFIG["sources"]:
        jobs["serving"][f"trace_{source}"] = tier_options(
            parts["traces"],
            preset=["serving"],
            systems=[*SERVING_BASELINES, "ours", "ours_one_tier"],
        )
    return jobs


TIER_JOBS = {design: tier_jobs(design) for design in TIER_DESIGNS}
TRACE_OF_JOB = {f"trace_{source}": source for source in CONFIG["sources"]}


def tier_windows(wildcards):
    """The frozen windows that a job replays, if it does."""
    source = TRACE_OF_JOB.get(wildcards.job)
    return [f"<results>/windows/{source}.parquet"] if source else []


def tier_tables(item, design):
    """The tables that a figure or a table of the study reads, by name: <model>_<analysis>."""
    found = {}
    for name in item.reads:
        model, _, analysis = name.partition("_tier_")
        found[name] = f"<results>/{design}/{model}/{analysis}.parquet"
    return found


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
        svg="<figures>/{design}/{figure}.svg",
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
        model=lambda wildcards: TIER_FIGURES[wildcards.figure].shows,
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


def tier_outputs(design):
    """All that a design makes."""
    return [
        *expand(
            "<results>/{design}/{model}/{analysis}.parquet",
            design=design,
            model=TIER_MODELS,
            analysis=TIER_ANALYSES,
        ),
        *expand(
            "<figures>/{design}/{figure}.{ext}",
            design=design,
            figure=TIER_FIGURES,
            ext=["svg", "pdf"],
        ),
        *expand("<tables>/{design}/{table}.csv", design=design, table=TIER_TABLES),
        f"<results>/{design}/claims.csv",
    ]


rule tiers:
    input:
        tier_outputs("tiers"),


rule tiers_full:
    input:
        tier_outputs("tiers_full"),
