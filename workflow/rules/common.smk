# The checked configuration of the run, and the helpers of the rules.
import os
import re
import sys

try:
    import servestudy
except ModuleNotFoundError:
    sys.exit(
        f"{sys.executable} runs Snakemake but lacks this project: run `make`,"
        " or `pip install --no-deps -e .` in the active environment"
    )

from servestudy.audit.ablation import affected_schedulers
from servestudy.audit.defects import SWITCHES
from servestudy.audit.switches import rules_of
from servestudy.code_files import PACKAGE, code_files
from servestudy.config import (
    BASE,
    check_run,
    load_schedulers,
    run_layers,
    scheduler_file,
)
from servestudy.errors import UserError
from servestudy.model_names import models_read
from servestudy.notebook_inputs import files_of, modules_of, shown_code
from servestudy.run_lock import claim_run, runs_jobs
from servestudy.plotting.registry import AUDIT_FIGURES, FIGURES, TIER_FIGURES
from servestudy.statistics.registry import (
    ANALYSES,
    VARIANT_ANALYSES,
    WORKLOAD_ANALYSES,
)
from servestudy.tabulation.registry import (
    AUDIT_TABLES,
    CLAIMS,
    TABLES,
    TIER_TABLES,
    WINDOW_INDEX,
)
from servestudy.spotcheck.registry import (
    ANALYSES as SPOTCHECK_ANALYSES,
    FIGURES as SPOTCHECK_FIGURES,
    MEASURED_TABLES,
    PROVENANCE,
    SIMULATED,
)
from servestudy.traces.registry import SOURCES, load_sources

try:
    LAYERS = run_layers(
        workflow.config_settings.configfiles,
        workflow.config_settings.config,
        with_base=not workflow.config_settings.replace_workflow_config,
    )
    CONFIG = check_run(LAYERS)
    if (
        workflow.is_main_process
        and not workflow.output_settings.dryrun
        and runs_jobs(sys.argv)
    ):
        claim_run()
except UserError as error:
    sys.exit(str(error))

RUN = CONFIG["run"]
IS_DEFAULT_RUN = RUN in [
    layer.values.get("run") for layer in LAYERS if layer.place == BASE
]
REGISTRY = load_sources(SOURCES)
SCHEDULERS = load_schedulers()
SHOWN_MODEL = CONFIG["models"][0]  # in figures and tables
PRIMARY_SCHEDULERS = [
    name for name in CONFIG["schedulers"] if SCHEDULERS[name]["primary"]
]
REPETITIONS = {"published": CONFIG["repetitions"], "serving": 1}
VARIANT_MODELS = [model for model in CONFIG["models"] if model == "published"]
NOTEBOOKS = sorted(glob_wildcards("notebooks/{name,[0-9a-z_]+}.ipynb").name)
NUMBERS = {
    "slo": CONFIG["sensitivity"]["slo_multipliers"],
    "window_sizes": CONFIG["sensitivity"]["window_requests"],
}

# Rules of the published model that the run changes as a whole: as options, and what they come to.
RULE_SETTINGS = " ".join(f"--set {name}={arm}" for name, arm in CONFIG["rules"].items())
RULES = repr(rules_of(CONFIG["rules"]))

# Jobs find the `servestudy` command beside the Python that runs Snakemake, and use one thread each.
os.environ.update(
    PATH=os.pathsep.join([os.path.dirname(sys.executable), os.environ.get("PATH", "")]),
    OMP_NUM_THREADS="1",
)
# An environment variable, not a parameter: where a file came from is no reason to get it again.
if CONFIG["traces"]["mirror"] and not os.environ.get("SERVESTUDY_TRACE_MIRROR"):
    os.environ.update(SERVESTUDY_TRACE_MIRROR=CONFIG["traces"]["mirror"])


def one_of(values):
    """Regular expression that matches exactly these values (and nothing if there are none)."""
    return "|".join(map(re.escape, values)) or "(?!)"


def words(name):
    """A name as the report shows it."""
    return name.replace("_", " ")


def raw_trace(source):
    """Where the raw file of a source lies; shared by all runs."""
    return REGISTRY[source].raw_path("data/raw").as_posix()


def code(*modules):
    """The files that modules of the package are made of, as inputs of the rule that runs them."""
    return [os.path.relpath(path) for path in code_files(*modules)]


def schedulers_of(model):
    """The run's schedulers that this engine model has."""
    return [name for name in CONFIG["schedulers"] if model in SCHEDULERS[name]["class"]]


def cells_of(model):
    """The cells of an engine model, a file for each source and scheduler."""
    return expand(
        "<results>/cells/{model}/{source}/{scheduler}.parquet",
        model=model,
        source=CONFIG["sources"],
        scheduler=schedulers_of(model),
    )


def model_settings(model):
    """The settings file of an engine model, if it has one."""
    return CONFIG["serving"] if model == "serving" else []


def model_arguments(model, input):
    """What tells a command which engine model to run."""
    settings = f" --serving {input.settings}" if input.settings else ""
    rules = f" {RULE_SETTINGS}" if RULE_SETTINGS and model == "published" else ""
    return f"--model {model}{settings}{rules}"


def model_rules(model):
    """The rules that the published model runs under; a changed one is a reason to run again."""
    return RULES if model == "published" else ""


def ablated_schedulers(switch):
    """The run's schedulers whose cells a switch can change."""
    return affected_schedulers(SWITCHES[switch], schedulers_of("published"))


def audit_tables(item):
    """The tables that a figure or a table of the audit reads, by name; unless it is named, of the published model."""
    folder = "<results>/statistics/"
    return {
        name: (
            "<results>/claims.csv"
            if name == CLAIMS
            else f"{folder}{name if os.path.dirname(name) else f'published/{name}'}.parquet"
        )
        for name in item.reads
    }


def audit_items(items):
    """Names of the figures or tables of the audit whose engine models the run has."""
    return [
        name
        for name, item in items.items()
        if set(models_read(item.reads)) <= set(CONFIG["models"])
    ]


def scheduler_code(name, model):
    """The files that a scheduler is made of: its own and those that it shares, but no other scheduler."""
    path = SCHEDULERS[name]["class"][model]
    home = path.partition(":")[0]
    if home.startswith("servestudy."):
        return code(home)
    return [os.path.relpath(scheduler_file(path))]


def package_file(name):
    """A data file of the package, as input of the rule that uses it."""
    return os.path.relpath(PACKAGE / name)


def registered(source):
    """What decides which windows are cut from a source; a changed title or address reruns nothing."""
    row = REGISTRY[source]
    layout = f"{row.format} {row.columns}".rstrip()
    return [layout, row.sha256, row.rows, row.skip_rows, row.sampling_seed]


def analysis_table(name):
    """The table of an analysis: of the shown model, or of the windows alone."""
    folder = "" if name in WORKLOAD_ANALYSES else f"{SHOWN_MODEL}/"
    return f"<results>/statistics/{folder}{name}.parquet"


def figure_tables(wildcards):
    """The analysis tables that a figure reads, by name."""
    return {name: analysis_table(name) for name in FIGURES[wildcards.figure].reads}


def table_inputs(wildcards):
    """What a table is made of, by name: analyses, window index, claims."""
    elsewhere = {
        WINDOW_INDEX: "<results>/windows/index.csv",
        CLAIMS: "<results>/claims.csv",
    }
    return {
        name: elsewhere.get(name) or analysis_table(name)
        for name in TABLES[wildcards.table].reads
    }


def numbered(paths):
    """Arguments NUMBER=FILE; each file lies in a folder that is called like its number."""
    return [f"{os.path.basename(os.path.dirname(path))}={path}" for path in paths]


def variant_cells(kind, models):
    """The cells of all variants of a kind."""
    return expand(
        "<results>/{kind}/{model}/{number}/{source}.parquet",
        kind=kind,
        model=models,
        number=NUMBERS[kind],
        source=CONFIG["sources"],
    )


def notebook_files(wildcards):
    """What a notebook shows and reads of the run."""
    schedulers = {model: schedulers_of(model) for model in CONFIG["models"]}
    return files_of(
        f"notebooks/{wildcards.notebook}.ipynb", CONFIG["sources"], schedulers
    )


def notebook_code(wildcards):
    """The package files that a notebook runs, and those that it prints."""
    notebook = f"notebooks/{wildcards.notebook}.ipynb"
    run = code(
        "servestudy.notebook", "servestudy.notebook_pages", *modules_of(notebook)
    )
    return sorted({*run, *map(os.path.relpath, shown_code(notebook))})
