# Where each figure and table comes from: for readers, for the appendix of the paper and for the report. It reads the
# texts of notebooks and paper, not what is made of them.
from glob import glob

from servestudy.items import ITEMS
from servestudy.traceability import options_of

# Captions of the report get the configuration and the job: what items are is put beside the former.
config["items"] = {
    name: {"text": item.text, "module": item.module}
    for (kind, name), item in ITEMS.items()
    if kind == "figure"
}
config["run_options"] = options_of(LAYERS)


rule write_traceability:
    input:
        figures=rules.figures.input,
        tables=rules.tables.input,
        audit=rules.audit.input,
        tiers=rules.tiers.input,
        spotcheck=rules.spotcheck.input,
        claims=rules.claims.input,
        provenance=f"{MEASURED}/{PROVENANCE}",
        notebooks=expand("notebooks/{notebook}.ipynb", notebook=NOTEBOOKS),
        paper=sorted(glob("paper/**/*.typ", recursive=True)),
        code=code("servestudy.traceability"),
    output:
        csv="<results>/traceability.csv",
    log:
        "<logs>/write_traceability.log",
    conda:
        "../../environment.yml"
    threads: 1
    params:
        run_dir=subpath(output.csv, parent=True),
        figures=lambda wildcards, input: os.path.dirname(
            os.path.dirname(input.figures[0])
        ),
        tables=lambda wildcards, input: os.path.dirname(
            os.path.dirname(input.tables[0])
        ),
        models=CONFIG["models"],
        measured=subpath(input.provenance, parent=True),
        options=options_of(LAYERS),
    message:
        "Trace each figure and table to what it comes from: {output.csv}"
    shell:
        "servestudy traceability --run-dir {params.run_dir} --figures-dir {params.figures} --tables-dir {params.tables}"
        " --models {params.models} --measurements {params.measured} --notebooks {input.notebooks} --paper {input.paper}"
        " --run-options={params.options:q} --out {output.csv} > {log} 2>&1"


PAGES = {
    item.name: item
    for item in ITEMS.values()
    if item.kind == "table" and set(item.models) <= set(CONFIG["models"])
}
CATEGORIES = {
    "portability": "2 Portability",
    "audit": "3 Audit",
    "tiers": "4 Tiers",
    "spotcheck": "5 Spot-check",
    "portability/claims": "1 Claims",
    "tiers/claims_of_tiers": "1 Claims",
}


# Browsers do not show a CSV: the report has a page for each table.
rule write_table_pages:
    input:
        tables=[f"<tables>/{item.file}" for item in PAGES.values()],
        traceability="<results>/traceability.csv",
        code=code("servestudy.table_pages"),
    output:
        [
            report(
                f"<results>/report/{name}.html",
                caption="../report/tables.rst",
                category=CATEGORIES.get(name, CATEGORIES[os.path.dirname(name)]),
                subcategory="Tables",
                labels={"table": words(os.path.basename(name))},
            )
            for name, item in PAGES.items()
        ],
        report(
            "<results>/report/traceability.html",
            caption="../report/traceability.rst",
            category="8 Traceability",
            labels={"table": "traceability"},
        ),
    log:
        "<logs>/write_table_pages.log",
    benchmark:
        "<benchmarks>/write_table_pages.tsv"
    conda:
        "../../environment.yml"
    threads: 1
    params:
        texts=[
            *(item.text for item in PAGES.values()),
            "where each figure and table comes from",
        ],
    message:
        "Write the tables as pages of the report"
    shell:
        "servestudy table-pages {input.tables} {input.traceability} --texts {params.texts:q} --out {output} > {log} 2>&1"


rule traceability:
    input:
        rules.write_traceability.output.csv,
        rules.write_table_pages.output,
