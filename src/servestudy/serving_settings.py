"""config/serving.yaml, loaded and checked."""

import math
from pathlib import Path
from typing import Any

from servestudy.config import load_yaml
from servestudy.errors import UserError
from servestudy.schemas import load_schema, schema_problems

SETTINGS = Path("config/serving.yaml")
CHECKOUT = Path(__file__).parents[2]


def load_serving_settings(path: Path | str = SETTINGS) -> dict[str, Any]:
    """The settings; raises UserError that lists all problems of the file, a line each.

    A relative path is looked for in the current folder, then in the checkout that this package is installed from.
    """
    place = Path(path)
    if not place.is_file() and (CHECKOUT / place).is_file():
        place = CHECKOUT / place
    settings = load_yaml(place)
    problems = schema_problems(str(path), settings, load_schema("serving", CHECKOUT))
    if not problems:
        problems = _whole_problems(str(path), settings)
    if problems:
        raise UserError("\n".join(problems))
    return settings


def _whole_problems(place: str, settings: dict[str, Any]) -> list[str]:
    replica, classes = settings["replica"], settings["slo"]["classes"]
    problems = []
    if replica["max_num_batched_tokens"] < replica["max_num_seqs"]:
        problems.append(
            f"{place}: replica.max_num_batched_tokens: found {replica['max_num_batched_tokens']}; allowed: at least "
            f"max_num_seqs ({replica['max_num_seqs']}), so that every decode has its token"
        )
    total = math.fsum(values["share"] for values in classes.values())
    if not math.isclose(total, 1.0, abs_tol=1e-9):
        problems.append(f"{place}: slo.classes: found shares that add up to {total:g}; allowed: 1 in all")
    return problems
