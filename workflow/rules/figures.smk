# Figures. Those of the default run are in figures/, those of another run in results/<run>/.


from servestudy.plotting.registry import FIGURES

DRAWN_MODEL = CONFIG["models"][0]


def figure_tables(wildcards):
    """The analysis tables that a figure reads, by name: of the drawn model, or of the windows alone."""
    return {
        table: (
            f"<results>/statistics/{DRAWN_MODEL}/{table}.parquet"
            if table in ANALYSES
            else f"<results>/statistics/{table}.parquet"
        )
        for table in FIGURES[wildcards.figure].reads
    }


rule draw_figure:
    input:
        unpack(figure_tables),
        code=lambda wildcards: code(FIGURES[wildcards.figure].module),
        style=package_file("plotting/servestudy.mplstyle"),
    output:
        svg="<figures>/portability/{figure}.svg",
        pdf="<figures>/portability/{figure}.pdf",
    log:
        "<logs>/draw_figure/{figure}.log",
    benchmark:
        "<benchmarks>/draw_figure/{figure}.tsv"
    wildcard_constraints:
        figure=one_of(FIGURES),
    conda:
        "../../environment.yml"
    threads: 1
    params:
        tables=lambda wildcards, input: [
            f"{table}={input[table]}" for table in FIGURES[wildcards.figure].reads
        ],
        title=CONFIG["title"],
        model=DRAWN_MODEL,
    message:
        "Draw {output.svg}"
    shell:
        "servestudy figure {wildcards.figure} --tables {params.tables} --title {params.title:q}"
        " --model {params.model} --out {output.svg} {output.pdf} > {log} 2>&1"


rule figures:
    input:
        expand(
            "<figures>/portability/{figure}.{ext}", figure=FIGURES, ext=["svg", "pdf"]
        ),
