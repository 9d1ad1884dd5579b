# Figures and tables. Those of the default run are in figures/ and tables/, those of another run in results/<run>/.


rule draw_tau_heatmap:
    input:
        agreement="<results>/statistics/published/agreement.parquet",
        code=code("servestudy.plotting.tau_heatmap"),
        style=package_file("plotting/servestudy.mplstyle"),
    output:
        svg="<figures>/portability/tau_heatmap.svg",
        pdf="<figures>/portability/tau_heatmap.pdf",
    log:
        "<logs>/draw_tau_heatmap.log",
    benchmark:
        "<benchmarks>/draw_tau_heatmap.tsv"
    conda:
        "../../environment.yml"
    threads: 1
    params:
        title=CONFIG["title"],
    message:
        "Draw {output.svg}"
    shell:
        "servestudy figure tau_heatmap --agreement {input.agreement} --title {params.title:q}"
        " --out {output.svg} {output.pdf} > {log} 2>&1"


rule tabulate_tau:
    input:
        agreement="<results>/statistics/published/agreement.parquet",
        code=code("servestudy.tabulation.tau_by_region"),
    output:
        csv="<tables>/portability/tau_by_region.csv",
    log:
        "<logs>/tabulate_tau.log",
    benchmark:
        "<benchmarks>/tabulate_tau.tsv"
    conda:
        "../../environment.yml"
    threads: 1
    params:
        title=CONFIG["title"],
    message:
        "Write {output.csv}"
    shell:
        "servestudy table tau_by_region --agreement {input.agreement} --title {params.title:q}"
        " --out {output.csv} > {log} 2>&1"


rule figures:
    input:
        "<figures>/portability/tau_heatmap.svg",
        "<figures>/portability/tau_heatmap.pdf",


rule tables:
    input:
        "<tables>/portability/tau_by_region.csv",
