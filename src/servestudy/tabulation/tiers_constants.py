"""Table: every rule and constant of the tiers study, as each preset has it, and the headroom that follows from them."""

from collections.abc import Callable, Mapping
from dataclasses import fields

import pandas as pd

from servestudy.tiers.settings import PRESETS, Preset, Rules, headroom_of
from servestudy.tiers.study import TIERS_OF_THE_STUDY


def tabulate(tables: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """A row a constant, a column a preset; of the tables only whether the preset was run is told."""
    ran = {name for table in tables.values() for name in table["preset"]}
    rows = [{"constant": "run here"} | {name: str(name in ran) for name in PRESETS}]
    rows += [_row(of.name, lambda preset, name=of.name: getattr(preset.rules, name)) for of in fields(Rules)]
    rows += [
        _row("requests_per_s of the burst", lambda preset: preset.workload.requests_per_s),
        _row("lengths", lambda preset: preset.workload.lengths),
        _row("mixes", lambda preset: " ".join(preset.mixes)),
        _row("requests", lambda preset: " ".join(map(str, preset.volumes))),
    ]
    for tiers in TIERS_OF_THE_STUDY:
        rows.append(
            _row(
                f"headroom in blocks, K = {tiers}",
                lambda preset, tiers=tiers: " ".join(f"{blocks:.4g}" for blocks in headroom_of(preset.rules, tiers)),
            )
        )
    return pd.DataFrame(rows)


def _row(constant: str, value_of: Callable[[Preset], object]) -> dict[str, str]:
    return {"constant": constant} | {name: str(value_of(preset)) for name, preset in PRESETS.items()}
