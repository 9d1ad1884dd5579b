# servestudy: which conclusions about LLM-serving schedulers survive?
#
#   snakemake --cores all                                       the default run (embedded traces)
#   snakemake --cores all --configfile config/real.yaml         another run
#   snakemake figures/portability/tau_heatmap.svg --cores 2     one figure, and only what it needs
#   snakemake -n                                                what would be done
#
# Name targets before options: --configfile and --config take every word that follows them.
from snakemake.utils import min_version

min_version("9.27")


include: "workflow/rules/common.smk"


configfile: "config/config.yaml"


pathvars:
    results=f"results/{RUN}",
    logs=f"results/{RUN}/logs",
    benchmarks=f"results/{RUN}/benchmarks",
    figures="figures" if IS_DEFAULT_RUN else f"results/{RUN}/figures",
    tables="tables" if IS_DEFAULT_RUN else f"results/{RUN}/tables",
    paper="paper" if IS_DEFAULT_RUN else f"results/{RUN}/paper",


report: "workflow/report/workflow.rst"


wildcard_constraints:
    source=one_of(CONFIG["sources"]),
    model=one_of(CONFIG["models"]),
    scheduler=one_of(CONFIG["schedulers"]),
    analysis=one_of(ANALYSES),


include: "workflow/rules/traces.smk"
include: "workflow/rules/windows.smk"
include: "workflow/rules/calibrate.smk"
include: "workflow/rules/portability.smk"
include: "workflow/rules/sensitivity.smk"
include: "workflow/rules/statistics.smk"
include: "workflow/rules/audit.smk"
include: "workflow/rules/spotcheck.smk"
include: "workflow/rules/tier_jobs.smk"
include: "workflow/rules/tiers.smk"
include: "workflow/rules/claims.smk"
include: "workflow/rules/figures.smk"
include: "workflow/rules/tables.smk"
include: "workflow/rules/notebooks.smk"
include: "workflow/rules/traceability.smk"
include: "workflow/rules/paper.smk"
include: "workflow/rules/release.smk"


localrules:
    all,
    fetch_trace,
    write_manifest,


rule all:
    default_target: True
    input:
        rules.figures.input,
        rules.tables.input,
        rules.claims.input,
        rules.audit.input,
        rules.spotcheck.input,
        rules.tiers.input,
        rules.notebooks.input,
        rules.traceability.input,
        rules.paper.input,
        rules.write_manifest.output,
    message:
        "The run is complete: {input}"
