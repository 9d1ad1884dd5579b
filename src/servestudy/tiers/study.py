"""The cells of the tiers study: number of tiers x mix x volume x seed, for one system and one set of rules."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path

import pyarrow as pa

from servestudy.errors import UserError
from servestudy.progress import progress
from servestudy.tables import write_table
from servestudy.tiers.metrics import METRIC_SCHEMA, metric_rows
from servestudy.tiers.outcome import Outcome, simulate
from servestudy.tiers.settings import OURS_ONLY, PRESETS, PUBLISHED, Preset, with_settings
from servestudy.tiers.systems import system
from servestudy.tiers.workload import draw

TIERS_OF_THE_STUDY = tuple(range(1, 11))
SEED_OF_THE_STUDY = 42


def variant_name(name: str, settings: Sequence[str]) -> str:
    """`published`, or the settings that the system reads, in order: one that it does not read changes nothing."""
    is_ours = system(name).dispatch is None
    read = sorted(setting for setting in settings if is_ours or setting.partition("=")[0] not in OURS_ONLY)
    return ",".join(read) or PUBLISHED


def preset_of(name: str) -> Preset:
    """The workload and rules of that name; raises UserError if there are none."""
    if name not in PRESETS:
        raise UserError(f"unknown preset {name!r}; allowed: {', '.join(PRESETS)}")
    return PRESETS[name]


def cells(
    preset: str,
    name: str,
    tiers: Sequence[int],
    mixes: Sequence[str],
    volumes: Sequence[int],
    seeds: Sequence[int],
    settings: Sequence[str] = (),
) -> Iterator[list[dict]]:
    """The rows of METRIC_SCHEMA of each cell in turn, seeds innermost.

    Raises UserError for an unknown preset, system, mix, rule or setting, and for requests that cannot be served.
    """
    chosen = preset_of(preset)
    rules = with_settings(chosen.rules, settings)
    variant = variant_name(name, settings)
    known: dict[bytes, Outcome] = {}  # of a system for which tiers are mere labels
    for volume, mix, count, seed in product(volumes, mixes, tiers, seeds):
        requests = draw(replace(chosen.workload, requests=volume), mix, count, seed, rules.streams)
        same_run = requests.arrival_s.tobytes() + requests.prompt_tokens.tobytes() + requests.output_tokens.tobytes()
        if same_run in known:
            outcome = replace(known[same_run], tier=requests.tier)
        else:
            outcome, _ = simulate(name, requests, count, rules)
        if system(name).blind:
            known[same_run] = outcome
        key = {"preset": preset, "system": name, "variant": variant, "tiers": count, "mix": mix}
        yield [key | {"requests": volume, "seed": seed} | row for row in metric_rows(outcome, count)]


def write_cells(
    preset: str,
    name: str,
    tiers: Sequence[int],
    mixes: Sequence[str],
    volumes: Sequence[int],
    seeds: Sequence[int],
    settings: Sequence[str],
    out: Path | str,
) -> None:
    """Simulate the cells of a system and write them, see `cells`."""
    total = len(tiers) * len(mixes) * len(volumes) * len(seeds)
    done = progress(cells(preset, name, tiers, mixes, volumes, seeds, settings), total, f"{name}, cells")
    rows = [row for cell in done for row in cell]
    write_table(pa.Table.from_pylist(rows, METRIC_SCHEMA), METRIC_SCHEMA, out)
