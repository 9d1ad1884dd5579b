# The notebooks, executed on this run: each is a page that needs no network.


rule execute_notebook:
    input:
        notebook="notebooks/{notebook}.ipynb",
        shown=notebook_files,
        code=notebook_code,
    output:
        html=report(
            "<results>/notebooks/{notebook}.html",
            caption="../report/notebooks.rst",
            category="6 Notebooks",
            labels=lambda wildcards: {"notebook": words(wildcards.notebook)},
        ),
    log:
        "<logs>/execute_notebook/{notebook}.log",
    benchmark:
        "<benchmarks>/execute_notebook/{notebook}.tsv"
    wildcard_constraints:
        notebook=one_of(NOTEBOOKS),
    conda:
        "../../environment.yml"
    threads: 1
    params:
        run=RUN,
    message:
        "Execute {input.notebook} to {output.html}"
    shell:
        "servestudy notebook {input.notebook} --run {params.run} --out {output.html} > {log} 2>&1"


rule notebooks:
    input:
        expand("<results>/notebooks/{notebook}.html", notebook=NOTEBOOKS),
