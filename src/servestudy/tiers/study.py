"""The cells of the tiers study: load x memory x tiers x mix x volume x seed, for one system and its variants."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path

import pyarrow as pa

from servestudy.errors import UserError
from servestudy.progress import progress
from servestudy.tables import write_table
from servestudy.tiers.each_request import REQUEST_SCHEMA, request_rows
from servestudy.tiers.load import BURST, requests_per_s
from servestudy.tiers.metrics import METRIC_SCHEMA, metric_rows
from servestudy.tiers.outcome import Outcome, simulate
from servestudy.tiers.settings import OURS_ONLY, PRESETS, PUBLISHED, Preset, with_settings
from servestudy.tiers.systems import system
from servestudy.tiers.traces import trace_workload
from servestudy.tiers.workload import Workload, draw

TIERS_OF_THE_STUDY = tuple(range(1, 11))
SEED_OF_THE_STUDY = 42
Rows = Callable[[Outcome, int], Iterator[dict]]
"""Rows of an outcome with K tiers."""


@dataclass(frozen=True)
class Design:
    """What is simulated. None: as the preset says. `variants` are settings on top of the preset's rules.

    `windows`: a file of frozen windows whose requests are replayed; its source then stands for the preset.
    """

    preset: str = "burst"
    tiers: Sequence[int] = TIERS_OF_THE_STUDY
    mixes: Sequence[str] | None = None
    requests: Sequence[int] | None = None
    seeds: Sequence[int] = (SEED_OF_THE_STUDY,)
    variants: Sequence[Sequence[str]] = ((),)
    loads: Sequence[str] = (BURST,)
    kv_blocks: Sequence[int] | None = None
    windows: Path | None = None

    def cells_of(self, name: str, rows: Rows = metric_rows) -> tuple[int, Iterator[list[dict]]]:
        """How many cells a system has, and its rows of each in turn, by default of METRIC_SCHEMA, seeds innermost.

        Variants that differ only in settings that the system does not read are run once. Raises UserError for an
        unknown preset, system, mix, rule or setting, and for requests that cannot be served.
        """
        preset = preset_of(self.preset)
        workload = trace_workload(self.windows) if self.windows else preset.workload
        variants = {variant_name(name, settings): settings for settings in self.variants}
        axes = (
            variants.items(),
            self.kv_blocks or (preset.rules.total_blocks,),
            self.loads,
            self.requests or preset.volumes,
            self.mixes or preset.mixes,
            self.tiers,
            self.seeds,
        )
        count = 1
        for axis in axes:
            count *= len(axis)
        return count, self._cells(name, rows, preset, workload, list(product(*axes)))

    def _cells(
        self, name: str, rows: Rows, preset: Preset, workload: Workload, cells: Sequence[tuple]
    ) -> Iterator[list[dict]]:
        known: dict[tuple, Outcome] = {}  # of a run for which tiers are mere labels
        for (variant, settings), blocks, load, volume, mix, count, seed in cells:
            rules = with_settings(replace(preset.rules, total_blocks=blocks), settings)
            rate = requests_per_s(load, workload, rules)
            requests = draw(replace(workload, requests=volume, requests_per_s=rate), mix, count, seed, rules.streams)
            times = requests.arrival_s.tobytes() + requests.prompt_tokens.tobytes() + requests.output_tokens.tobytes()
            same_run = (variant, blocks, times)
            if same_run in known:
                outcome = replace(known[same_run], tier=requests.tier)
            else:
                outcome, parts = simulate(name, requests, count, rules)
                if system(name).blind or not getattr(parts.dispatcher, "tiers_mattered", True):
                    known[same_run] = outcome
            key = {
                "preset": workload.source or self.preset,
                "system": name,
                "variant": variant,
                "tiers": count,
                "mix": mix,
                "requests": volume,
                "seed": seed,
                "load": load,
                "kv_blocks": rules.total_blocks,
            }
            yield [key | row for row in rows(outcome, count)]


def variant_name(name: str, settings: Sequence[str]) -> str:
    """The settings on top of the preset's rules that the system reads, in order; `published` if there is none.

    One that it does not read changes nothing.
    """
    all_read = system(name).migrates
    read = sorted(setting for setting in settings if all_read or setting.partition("=")[0] not in OURS_ONLY)
    return ",".join(read) or PUBLISHED


def preset_of(name: str) -> Preset:
    """The workload and rules of that name; raises UserError if there are none."""
    if name not in PRESETS:
        raise UserError(f"unknown preset {name!r}; allowed: {', '.join(PRESETS)}")
    return PRESETS[name]


def write_cells(design: Design, names: Sequence[str], out: Path | str, each_request: bool = False) -> None:
    """Simulate the cells of systems and write their metrics or, with `each_request`, rows of REQUEST_SCHEMA."""
    schema, rows_of = (REQUEST_SCHEMA, request_rows) if each_request else (METRIC_SCHEMA, metric_rows)
    rows = []
    for name in names:
        total, cells = design.cells_of(name, rows_of)
        rows += [row for cell in progress(cells, total, f"{name}, cells") for row in cell]
    write_table(pa.Table.from_pylist(rows, schema), schema, out)
