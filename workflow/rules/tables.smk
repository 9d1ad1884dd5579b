# Tables. Those of the default run are in tables/, those of another run in results/<run>/.


rule write_table:
    input:
        unpack(table_inputs),
        code=lambda wildcards: code(TABLES[wildcards.table].module),
    output:
        csv="<tables>/portability/{table}.csv",
    log:
        "<logs>/write_table/{table}.log",
    benchmark:
        "<benchmarks>/write_table/{table}.tsv"
    wildcard_constraints:
        table=one_of(TABLES),
    conda:
        "../../environment.yml"
    threads: 1
    params:
        tables=lambda wildcards, input: [
            f"{name}={input[name]}" for name in TABLES[wildcards.table].reads
        ],
        title=CONFIG["title"],
        model=SHOWN_MODEL,
        # Not in the command, which reads them from the registries: other facts are a reason to write the table again.
        facts=lambda wildcards: {
            "sources": [repr(REGISTRY[source]) for source in CONFIG["sources"]],
            "schedulers": [repr(SCHEDULERS[name]) for name in CONFIG["schedulers"]],
        }.get(wildcards.table, []),
    message:
        "Write {output.csv}"
    shell:
        "servestudy table {wildcards.table} --tables {params.tables} --title {params.title:q}"
        " --model {params.model} --out {output.csv} > {log} 2>&1"


rule tables:
    input:
        expand("<tables>/portability/{table}.csv", table=TABLES),
