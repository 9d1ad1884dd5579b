# The paper: its values from the tables of the run, then the PDF. That of the default run is paper/paper.pdf, those of
# other runs are in results/<run>/paper/.
from servestudy.items import ITEMS
from servestudy.paper.typeset import shown_items
from servestudy.paper.values import READS

MADE = [key for key, item in ITEMS.items() if set(item.models) <= set(CONFIG["models"])]
PAPER_TABLES = [item for item in READS if ("table", item) in MADE]
PAPER_FIGURES = [
    item for item in shown_items("paper")["figure"] if ("figure", item) in MADE
]
PAPER_SECTIONS = sorted(glob_wildcards("paper/sections/{name,[a-z-]+}.typ").name)


rule write_paper_values:
    input:
        tables=[f"<tables>/{item}.csv" for item in PAPER_TABLES],
        serving=CONFIG["serving"],
        provenance=f"{MEASURED}/{PROVENANCE}",
        code=code("servestudy.paper.values"),
    output:
        json="<results>/paper/values.json",
    log:
        "<logs>/write_paper_values.log",
    benchmark:
        "<benchmarks>/write_paper_values.tsv"
    conda:
        "../../environment.yml"
    threads: 1
    params:
        tables=lambda wildcards, input: [
            f"{item}={path}"
            for item, path in zip(PAPER_TABLES, input.tables, strict=True)
        ],
        title=CONFIG["title"],
        models=CONFIG["models"],
        run=RUN,
    message:
        "Write the values of the paper: {output.json}"
    shell:
        "servestudy paper-values --tables {params.tables} --title {params.title:q} --models {params.models}"
        " --run {params.run} --serving {input.serving} --provenance {input.provenance} --out {output.json} > {log} 2>&1"


rule typeset_paper:
    input:
        values=rules.write_paper_values.output.json,
        figures=[f"<figures>/{item}.pdf" for item in PAPER_FIGURES],
        traceability="<results>/traceability.csv",
        source="paper/paper.typ",
        text=[
            *expand("paper/{part}.typ", part=["lib", "template"]),
            *expand("paper/sections/{section}.typ", section=PAPER_SECTIONS),
        ],
        references="paper/refs.bib",
        authors="CITATION.cff",
        code=code("servestudy.paper.typeset"),
    output:
        pdf=report(
            "<paper>/paper.pdf",
            caption="../report/paper.rst",
            category="7 Paper",
            labels={"paper": "The paper (PDF)"},
        ),
    log:
        "<logs>/typeset_paper.log",
    benchmark:
        "<benchmarks>/typeset_paper.tsv"
    conda:
        "../../environment.yml"
    threads: 1
    params:
        figures=lambda wildcards, input: [
            f"{item}={path}"
            for item, path in zip(PAPER_FIGURES, input.figures, strict=True)
        ],
    message:
        "Typeset {output.pdf}"
    shell:
        "servestudy paper --source {input.source} --values {input.values} --figures {params.figures}"
        " --traceability {input.traceability} --out {output.pdf} > {log} 2>&1"


rule paper:
    input:
        rules.typeset_paper.output.pdf,
