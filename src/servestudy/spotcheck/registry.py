"""The tables, figures and CSVs of the spot-check by name, each with what makes it."""

import json
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

from servestudy.errors import UserError
from servestudy.plotting.registry import Figure

MEASURED_TABLES = ("cells", "requests", "steps", "calibration")
PROVENANCE = "provenance.json"
"""What a measurement consists of."""
SIMULATED = {
    "published": ("slai_faithful", "vllm_faithful"),
    "serving": ("slai_faithful", "fifo"),
}
"""What stands for the engine's arms in each engine model: the study compared SLAI with its vllm_faithful. In the
serving model that is vLLM V0, which lets no prefill and decode share a step; the engine's FCFS is fifo there."""
ANALYSES = ("effects", "agreement", "engine_cells", "simulator_errors", "simulator_summary", "step_times", "windows")

FIGURES = {
    "effects": Figure(
        "servestudy.plotting.spotcheck_effects",
        "SLAI less FCFS in ANWG: on the engine, in the simulators, in the study",
        {
            "effects": ("source", "variant", "load", "windows", "metric", "effect", "low", "high", "n_windows"),
            "agreement": (
                "source",
                "windows",
                "simulator",
                "simulated_effect",
                "simulated_low",
                "simulated_high",
                "engine_effect",
                "engine_low",
                "engine_high",
            ),
        },
    ),
    "sim_vs_engine": Figure(
        "servestudy.plotting.spotcheck_sim_vs_engine",
        "the simulator against the engine, cell by cell",
        {"simulator_errors": ("variant", "arm", "metric", "engine", "simulator")},
    ),
    "step_time": Figure(
        "servestudy.plotting.spotcheck_step_time",
        "step time against tokens, and the fit that the simulator uses",
        {
            "step_times": (
                "tokens_mean",
                "n_steps",
                "low_s",
                "median_s",
                "high_s",
                "fitted_s",
                "base_s",
                "token_s",
                "decode_s",
                "kv_token_s",
            )
        },
    ),
}


DEVICES = {"cpu": "CPU only", "cuda": "GPU"}
CLOCKS = {"ProcessorClock": "processor time", "RealClock": "real time"}


@dataclass(frozen=True)
class Provenance:
    """What figures and tables say about a measurement: `committed`, or made in this run."""

    traces: str
    device: str
    preset: str
    engine: str
    clock: str
    committed: bool

    @property
    def text(self) -> str:
        """In one line."""
        origin = "committed measurement" if self.committed else "measured in this run"
        return f"{self.traces}; {origin}: {self.engine}, {self.device}, {self.clock}, random weights"


def read_provenance(folder: Path, committed: bool) -> Provenance:
    """From the record of a measurement. Raises UserError if there is none."""
    try:
        record = json.loads((folder / PROVENANCE).read_text(encoding="utf-8"))
        return Provenance(
            record["traces"],
            f"{DEVICES[record['device']['kind']]} ({record['device']['name']})",
            record["preset"]["name"],
            record["engine"]["name"],
            CLOCKS[record["engine"]["clock"]],
            committed,
        )
    except (OSError, ValueError, KeyError) as error:
        raise UserError(f"{folder / PROVENANCE}: not the record of a measurement ({error})") from None


def draw_figure(name: str, files: dict[str, Path], origin: Provenance, out: list[Path]) -> None:
    """Draw one of FIGURES to each path of `out`. Raises UserError as `read_named_tables` does."""
    from servestudy.named_tables import read_named_tables
    from servestudy.plotting.style import Context, save

    figure = FIGURES[name]
    tables = read_named_tables(f"figure {name}", files, figure.reads)
    save(import_module(figure.module).draw(tables, Context(origin.text, origin.preset)), out)
