# What a run made, with content hashes: two runs of the same inputs agree. And the release, to pass it on.
import json

from servestudy.traceability import options_of


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


# All that is worth passing on, in one folder. Not part of a run: `snakemake release`.
rule write_release:
    input:
        files=[
            expand("<results>/windows/{source}.parquet", source=CONFIG["sources"]),
            rules.write_manifest.input.longer,
            rules.write_manifest.input.index,
            rules.write_manifest.input.calibration,
            rules.cells.input,
            rules.variants.input,
            expand(
                "<results>/audit/published/{switch}/{source}.parquet",
                switch=ABLATIONS if "published" in CONFIG["models"] else [],
                source=CONFIG["sources"],
            ),
            rules.statistics.input,
            rules.claims.input,
            rules.audit.input,
            rules.tiers.input,
            expand(
                "<results>/tiers/serving/{table}.parquet",
                table=["requests", "timeline"],
            ),
            rules.write_manifest.input.spotcheck,
            MEASURED_FILES,
        ],
        figures=rules.figures.input,
        tables=rules.tables.input,
        manifest=rules.write_manifest.output.manifest,
        provenance=f"{MEASURED}/{PROVENANCE}",
        project=["CITATION.cff", "LICENSE"],
        code=code("servestudy.release.build"),
    output:
        folder=directory("<results>/release"),
    log:
        "<logs>/write_release.log",
    conda:
        "../../environment.yml"
    threads: 1
    params:
        run_dir=subpath(output.folder, parent=True),
        figures=lambda wildcards, input: os.path.dirname(
            os.path.dirname(input.figures[0])
        ),
        tables=lambda wildcards, input: os.path.dirname(
            os.path.dirname(input.tables[0])
        ),
        measured=subpath(input.provenance, parent=True),
        # Where a machine keeps copies of traces is nobody's business.
        config=json.dumps(CONFIG | {"traces": CONFIG["traces"] | {"mirror": None}}),
        options=options_of(LAYERS),
        # Not in the command, which reads it: other licences are a reason to release again.
        registry=[repr(source) for source in REGISTRY.values()],
    message:
        "Make the release: {output.folder}"
    shell:
        "servestudy release {input.files} {input.figures} {input.tables} --run-dir {params.run_dir} --figures {params.figures}"
        " --tables {params.tables} --measurements {params.measured} --manifest {input.manifest}"
        " --config {params.config:q} --run-options={params.options:q} --out {output.folder} > {log} 2>&1"


rule release:
    input:
        rules.write_release.output.folder,
