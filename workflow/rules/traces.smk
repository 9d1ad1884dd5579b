# Raw traces. They belong to no run: data/raw/<dataset>/<version>/<file> is shared by all runs.
SOURCE_OF = {raw_trace(source): source for source in REGISTRY}
SYNTHETIC_TRACES = [
    path.removeprefix("data/raw/")
    for path, source in SOURCE_OF.items()
    if REGISTRY[source].synthetic
]
PUBLIC_TRACES = [
    path.removeprefix("data/raw/")
    for path, source in SOURCE_OF.items()
    if not REGISTRY[source].synthetic
]


rule synthesize_trace:
    input:
        code=code("servestudy.traces.synthesize"),
        parameters=package_file("traces/embedded.yaml"),
    output:
        trace="data/raw/{trace}",
    log:
        "<logs>/synthesize_trace/{trace}.log",
    benchmark:
        "<benchmarks>/synthesize_trace/{trace}.tsv"
    wildcard_constraints:
        trace=one_of(SYNTHETIC_TRACES),
    conda:
        "../../environment.yml"
    threads: 1
    params:
        source=lambda wildcards, output: SOURCE_OF[output.trace],
    message:
        "Make the synthetic trace {params.source}"
    shell:
        "servestudy synthesize --source {params.source} --out {output.trace} > {log} 2>&1"


# No code among the inputs: the sha256 says what the file is, and it may be large.
# update(): Snakemake must not delete a file that is there; the command checks it, and gets it only if it is missing.
rule fetch_trace:
    output:
        trace=update("data/raw/{trace}"),
    log:
        "<logs>/fetch_trace/{trace}.log",
    benchmark:
        "<benchmarks>/fetch_trace/{trace}.tsv"
    wildcard_constraints:
        trace=one_of(PUBLIC_TRACES),
    conda:
        "../../environment.yml"
    threads: 1
    params:
        source=lambda wildcards, output: SOURCE_OF[output.trace],
        sha256=lambda wildcards, output: REGISTRY[SOURCE_OF[output.trace]].sha256,
    message:
        "Get the trace {params.source} (progress: {log})"
    shell:
        "servestudy fetch --source {params.source} --out {output.trace} > {log} 2>&1"
