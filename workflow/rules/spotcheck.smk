# The spot-check on a real serving engine. By default its figures and tables show the measurements that are committed in
# data/spotcheck/<device>/, so that a run needs neither torch nor a GPU. With spotcheck.measure they show new ones.

MEASUREMENT = CONFIG["spotcheck"]
MEASURED = (
    "<results>/spotcheck/measured/{device}"
    if MEASUREMENT["measure"]
    else "data/spotcheck/{device}"
).format(device=MEASUREMENT["device"])
MEASURED_FILES = [
    f"{MEASURED}/{name}"
    for name in (*(f"{table}.parquet" for table in MEASURED_TABLES), PROVENANCE)
]
COMPARED = {
    model: [name for name in pair if name in schedulers_of(model)]
    for model, pair in SIMULATED.items()
    if model in CONFIG["models"]
}


rule choose_spotcheck_windows:
    input:
        windows=expand("<results>/windows/{source}.parquet", source=CONFIG["sources"]),
        code=code("servestudy.spotcheck.episode"),
    output:
        csv="<results>/spotcheck/windows.csv",
    log:
        "<logs>/choose_spotcheck_windows.log",
    conda:
        "../../environment.yml"
    threads: 1
    params:
        per_source=MEASUREMENT["windows"],
    message:
        "Choose the windows that are replayed on a real engine"
    shell:
        "servestudy spotcheck-windows {input.windows} --per-source {params.per_source} --out {output.csv} > {log} 2>&1"


# The cells stay where they are when this is cut: the next run measures the missing ones. Alone on all cores, since what
# runs beside it is measured too.
rule measure_spotcheck:
    input:
        windows="<results>/spotcheck/windows.csv",
        code=code(
            "servestudy.spotcheck.start",
            "servestudy.spotcheck.measure",
            "servestudy.spotcheck.backends.transformers_cb",
            "servestudy.spotcheck.measurements",
        ),
    output:
        expand(
            "<results>/spotcheck/measured/{{device}}/{name}",
            name=[*(f"{table}.parquet" for table in MEASURED_TABLES), PROVENANCE],
        ),
    log:
        "<logs>/measure_spotcheck/{device}.log",
    wildcard_constraints:
        device="cpu|cuda",
    conda:
        "../envs/spotcheck.yaml"
    threads: workflow.cores
    params:
        cells=f"results/{RUN}/spotcheck/cells/{{device}}",
        out=lambda wildcards, output: os.path.dirname(output[0]),
        preset=MEASUREMENT["preset"],
        limit_s=MEASUREMENT["limit_s"],
        title=CONFIG["title"],
    message:
        "Replay windows on a real engine, on {wildcards.device}, {params.limit_s} s at most (progress: {log})"
    shell:
        "(servestudy spotcheck-measure --windows {input.windows} --device {wildcards.device}"
        " --preset {params.preset} --traces {params.title:q} --limit-s {params.limit_s} --out {params.cells}"
        " && servestudy spotcheck-collect {params.cells} --out {params.out}) > {log} 2>&1"


rule analyse_spotcheck:
    input:
        measured=MEASURED_FILES,
        cells=[
            f"<results>/cells/{model}/{source}/{name}.parquet"
            for model, names in COMPARED.items()
            for source in CONFIG["sources"]
            for name in names
        ],
        code=code("servestudy.spotcheck.analyse"),
    output:
        expand("<results>/spotcheck/{analysis}.parquet", analysis=SPOTCHECK_ANALYSES),
    log:
        "<logs>/analyse_spotcheck.log",
    benchmark:
        "<benchmarks>/analyse_spotcheck.tsv"
    conda:
        "../../environment.yml"
    threads: 1
    params:
        measured=lambda wildcards, input: os.path.dirname(input.measured[0]),
        out=lambda wildcards, output: os.path.dirname(output[0]),
    message:
        "Set the simulators against the measurements in {params.measured}"
    shell:
        "servestudy spotcheck-analyse --measurements {params.measured} --cells {input.cells} --out {params.out}"
        " > {log} 2>&1"


rule draw_spotcheck_figure:
    input:
        tables=lambda wildcards: [
            f"<results>/spotcheck/{name}.parquet"
            for name in SPOTCHECK_FIGURES[wildcards.figure].reads
        ],
        provenance=f"{MEASURED}/{PROVENANCE}",
        code=lambda wildcards: code(
            "servestudy.spotcheck.registry", SPOTCHECK_FIGURES[wildcards.figure].module
        ),
        style=package_file("plotting/servestudy.mplstyle"),
    output:
        svg=report(
            "<figures>/spotcheck/{figure}.svg",
            caption="../report/spotcheck.rst",
            category="5 Spot-check",
            subcategory="Figures",
            labels=lambda wildcards: {"figure": words(wildcards.figure)},
        ),
        pdf="<figures>/spotcheck/{figure}.pdf",
    log:
        "<logs>/draw_spotcheck_figure/{figure}.log",
    benchmark:
        "<benchmarks>/draw_spotcheck_figure/{figure}.tsv"
    wildcard_constraints:
        figure=one_of(SPOTCHECK_FIGURES),
    conda:
        "../../environment.yml"
    threads: 1
    params:
        tables=lambda wildcards, input: [
            f"{name}={path}"
            for name, path in zip(
                SPOTCHECK_FIGURES[wildcards.figure].reads, input.tables
            )
        ],
        measured=subpath(input.provenance, parent=True),
        committed="" if MEASUREMENT["measure"] else "--committed",
    message:
        "Draw {output.svg}"
    shell:
        "servestudy spotcheck-figure {wildcards.figure} --tables {params.tables} --measurements {params.measured}"
        " {params.committed} --out {output.svg} {output.pdf} > {log} 2>&1"


rule write_spotcheck_tables:
    input:
        tables=rules.analyse_spotcheck.output,
        provenance=f"{MEASURED}/{PROVENANCE}",
        code=code("servestudy.spotcheck.analyse"),
    output:
        expand("<tables>/spotcheck/{analysis}.csv", analysis=SPOTCHECK_ANALYSES),
    log:
        "<logs>/write_spotcheck_tables.log",
    benchmark:
        "<benchmarks>/write_spotcheck_tables.tsv"
    conda:
        "../../environment.yml"
    threads: 1
    params:
        analyses=lambda wildcards, input: os.path.dirname(input.tables[0]),
        measured=subpath(input.provenance, parent=True),
        committed="" if MEASUREMENT["measure"] else "--committed",
        out=lambda wildcards, output: os.path.dirname(output[0]),
    message:
        "Write the tables of the spot-check"
    shell:
        "servestudy spotcheck-tables --analyses {params.analyses} --measurements {params.measured}"
        " {params.committed} --out {params.out} > {log} 2>&1"


rule spotcheck:
    input:
        rules.write_spotcheck_tables.output,
        expand(
            "<figures>/spotcheck/{figure}.{ext}",
            figure=SPOTCHECK_FIGURES,
            ext=["svg", "pdf"],
        ),
