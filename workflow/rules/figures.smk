# Figures. Those of the default run are in figures/, those of another run in results/<run>/.


rule draw_figure:
    input:
        unpack(figure_tables),
        code=lambda wildcards: code(FIGURES[wildcards.figure].module),
        style=package_file("plotting/servestudy.mplstyle"),
    output:
        svg=report(
            "<figures>/portability/{figure}.svg",
            caption="../report/portability.rst",
            category="2 Portability",
            subcategory="Figures",
            labels=lambda wildcards: {"figure": words(wildcards.figure)},
        ),
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
        model=SHOWN_MODEL,
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
