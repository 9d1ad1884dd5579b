# The audit of the published model: its cells again with one defect corrected at a time, and what that changes.

AUDIT_ANALYSES = [
    "audit_rankings",
    "audit_agreement",
    "audit_reversals",
    "audit_difference",
]
# Without the arm that the run itself has: that is the run.
ABLATIONS = {
    switch: [arm for arm in arms if arm != CONFIG["rules"].get(switch, "published")]
    for switch, arms in CONFIG["audit"]["ablations"].items()
}
ABLATIONS = {switch: arms for switch, arms in ABLATIONS.items() if arms}


rule simulate_ablation:
    input:
        windows="<results>/windows/{source}.parquet",
        calibration="<results>/calibration/published/{source}.parquet",
        cells=lambda wildcards: (
            expand(
                "<results>/cells/published/{source}/{scheduler}.parquet",
                source=wildcards.source,
                scheduler=ablated_schedulers(wildcards.switch),
            )
            if SWITCHES[wildcards.switch].unfinished_only
            else []
        ),
        code=code("servestudy.audit.ablation"),
        schedulers=lambda wildcards: [
            path
            for name in ablated_schedulers(wildcards.switch)
            for path in scheduler_code(name, "published")
        ],
    output:
        cells="<results>/audit/published/{switch}/{source}.parquet",
    log:
        "<logs>/simulate_ablation/{switch}/{source}.log",
    benchmark:
        "<benchmarks>/simulate_ablation/{switch}/{source}.tsv"
    wildcard_constraints:
        switch=one_of(ABLATIONS),
    conda:
        "../../environment.yml"
    threads: 1
    params:
        arms=lambda wildcards: ABLATIONS[wildcards.switch],
        schedulers=lambda wildcards: ablated_schedulers(wildcards.switch),
        regions=CONFIG["audit"]["regions"],
        rules=RULE_SETTINGS,
        rule_values=RULES,
        cells=lambda wildcards, input: (f"--cells {input.cells}" if input.cells else ""),
    message:
        "Simulate {wildcards.source} with {wildcards.switch} switched (progress: {log})"
    shell:
        "servestudy audit-simulate {params.rules} --switch {wildcards.switch} --arms {params.arms}"
        " --windows {input.windows} --calibration {input.calibration} {params.cells}"
        " --schedulers {params.schedulers} --regions {params.regions} --out {output.cells} > {log} 2>&1"


rule analyse_audit:
    input:
        cells=cells_of("published"),
        ablations=expand(
            "<results>/audit/published/{switch}/{source}.parquet",
            switch=ABLATIONS,
            source=CONFIG["sources"],
        ),
        code=code("servestudy.audit.analyses"),
    output:
        expand(
            "<results>/statistics/published/{analysis}.parquet",
            analysis=AUDIT_ANALYSES,
        ),
    log:
        "<logs>/analyse_audit.log",
    benchmark:
        "<benchmarks>/analyse_audit.tsv"
    conda:
        "../../environment.yml"
    threads: 1
    params:
        schedulers=schedulers_of("published"),
        regions=CONFIG["audit"]["regions"],
        out=lambda wildcards, output: [
            f"{name}={path}" for name, path in zip(AUDIT_ANALYSES, output, strict=True)
        ],
        ablations=lambda wildcards, input: (
            f"--ablations {input.ablations}" if input.ablations else ""
        ),
    message:
        "Set the arms of the audit beside the run itself"
    shell:
        "servestudy audit-analyse --cells {input.cells} {params.ablations}"
        " --schedulers {params.schedulers} --regions {params.regions} --out {params.out} > {log} 2>&1"


rule draw_audit_figure:
    input:
        unpack(lambda wildcards: audit_tables(AUDIT_FIGURES[wildcards.figure])),
        code=lambda wildcards: code(AUDIT_FIGURES[wildcards.figure].module),
        style=package_file("plotting/servestudy.mplstyle"),
    output:
        svg=report(
            "<figures>/audit/{figure}.svg",
            caption="../report/audit.rst",
            category="3 Audit",
            subcategory="Figures",
            labels=lambda wildcards: {"figure": words(wildcards.figure)},
        ),
        pdf="<figures>/audit/{figure}.pdf",
    log:
        "<logs>/draw_audit_figure/{figure}.log",
    benchmark:
        "<benchmarks>/draw_audit_figure/{figure}.tsv"
    wildcard_constraints:
        figure=one_of(AUDIT_FIGURES),
    conda:
        "../../environment.yml"
    threads: 1
    params:
        tables=lambda wildcards, input: [
            f"{table}={input[table]}"
            for table in AUDIT_FIGURES[wildcards.figure].reads
        ],
        title=CONFIG["title"],
        model=lambda wildcards: " and ".join(
            models_read(AUDIT_FIGURES[wildcards.figure].reads)
        ),
    message:
        "Draw {output.svg}"
    shell:
        "servestudy figure {wildcards.figure} --tables {params.tables} --title {params.title:q}"
        " --model {params.model:q} --out {output.svg} {output.pdf} > {log} 2>&1"


rule write_audit_table:
    input:
        unpack(lambda wildcards: audit_tables(AUDIT_TABLES[wildcards.table])),
        code=lambda wildcards: code(AUDIT_TABLES[wildcards.table].module),
    output:
        csv="<tables>/audit/{table}.csv",
    log:
        "<logs>/write_audit_table/{table}.log",
    benchmark:
        "<benchmarks>/write_audit_table/{table}.tsv"
    wildcard_constraints:
        table=one_of(AUDIT_TABLES),
    conda:
        "../../environment.yml"
    threads: 1
    params:
        tables=lambda wildcards, input: [
            f"{name}={input[name]}" for name in AUDIT_TABLES[wildcards.table].reads
        ],
        title=CONFIG["title"],
        model=lambda wildcards: " and ".join(
            models_read(AUDIT_TABLES[wildcards.table].reads)
        ),
        # Not in the command, which reads them from the registry: another role is a reason to write the table again.
        facts=[repr(SCHEDULERS[name]) for name in CONFIG["schedulers"]],
    message:
        "Write {output.csv}"
    shell:
        "servestudy table {wildcards.table} --tables {params.tables} --title {params.title:q}"
        " --model {params.model:q} --out {output.csv} > {log} 2>&1"


rule audit:
    input:
        rules.analyse_audit.output if "published" in CONFIG["models"] else [],
        expand(
            "<figures>/audit/{figure}.{ext}",
            figure=audit_items(AUDIT_FIGURES),
            ext=["svg", "pdf"],
        ),
        expand("<tables>/audit/{table}.csv", table=audit_items(AUDIT_TABLES)),
