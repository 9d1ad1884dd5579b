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

from servestudy.code_files import PACKAGE, code_files
from servestudy.config import (
    BASE,
    SOURCES,
    check_run,
    load_schedulers,
    run_layers,
    scheduler_file,
)
from servestudy.errors import UserError
from servestudy.run_lock import claim_run, runs_jobs
from servestudy.statistics.registry import ANALYSES
from servestudy.traces.registry import load_sources

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


def raw_trace(source):
    """Where the raw file of a source lies; shared by all runs."""
    return REGISTRY[source].raw_path("data/raw").as_posix()


def code(*modules):
    """The files that modules of the package are made of, as inputs of the rule that runs them."""
    return [os.path.relpath(path) for path in code_files(*modules)]


def scheduler_code(name):
    """The files that a scheduler is made of: its own and those that it shares, but no other scheduler."""
    home = SCHEDULERS[name]["class"].partition(":")[0]
    if home.startswith("servestudy."):
        return code(home)
    return [os.path.relpath(scheduler_file(SCHEDULERS[name]))]


def package_file(name):
    """A data file of the package, as input of the rule that uses it."""
    return os.path.relpath(PACKAGE / name)


def registered(source):
    """What decides which windows are cut from a source; a changed title or address reruns nothing."""
    row = REGISTRY[source]
    return [row.format, row.sha256, row.rows, row.skip_rows, row.sampling_seed]
