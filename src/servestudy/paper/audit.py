"""Theme: both engine models side by side, and the audit of the published model's defects."""

from collections.abc import Sequence
from statistics import median

from servestudy.audit.values import RUN
from servestudy.model_names import MODELS
from servestudy.paper.found import Found, Row, Tables
from servestudy.paper.wording import listed, moves, none_or, number, signed, spaced, span
from servestudy.statistics.pair_difference import PAIR

ARMS, DIFFERENCE, COMPARED = "audit/arms", "audit/arm_slai_less_vllm", "audit/models"
ARM_RANKINGS = "audit/arm_rankings"
READS = (ARMS, DIFFERENCE, COMPARED, ARM_RANKINGS)
CAP, LOAD = "head_of_line_2560", "load_divides_slack"
"""The two switches that the text looks at closely."""
QUANTITIES = {
    "mean_tau": ("mean tau-b between two sources", 2),
    "min_tau": ("smallest tau-b between two sources", 2),
    "positive": ("comparisons of two sources with a tau-b whose interval is above 0", 0),
    "reversals": ("supported reversals", 0),
    "pair_regions": (
        f"load regions in which {PAIR[0]} is ahead of {PAIR[1]} on a source and behind it on another",
        0,
    ),
    "metric_tau": ("median tau-b between two metrics", 2),
    "metric_negative": ("comparisons of two metrics with a negative tau-b", 0),
    "distinct": ("schedulers that serve some request differently, mean over windows and load regions", 1),
}
"""Rows of the comparison by the key they get here, with digits after the point."""
BETWEEN = "tau-b between the rankings of the two models, "
OF_PAIR = "supported reversals of "


def add(found: Found, tables: Tables) -> None:
    """Facts `both_models` and `audited` say whether the run has either; values only where it has."""
    compared = {row["quantity"]: row for row in tables.rows(COMPARED)}
    found.fact("both_models", bool(compared))
    if compared:
        _models(found, compared)
    arms = tables.rows(ARMS)
    found.fact("audited", len(arms) > 1)
    found.fact("arms.cap", False)
    found.fact("arms.load", False)
    if arms:
        _arms(found, arms, tables.rows(DIFFERENCE))
        _medians(found, tables.rows(ARM_RANKINGS))


def _models(found: Found, compared: dict[str, Row]) -> None:
    for key, (quantity, digits) in QUANTITIES.items():
        for model in MODELS:
            text = compared[quantity][model]
            found.value(f"models.{key}.{model}", _number(text, digits), COMPARED)
        sides = [compared[quantity][model] for model in MODELS]
        direction = moves(*map(float, sides), digits) if all(map(_is_number, sides)) else "goes"
        found.value(f"models.{key}.moves", direction, COMPARED)
    between = {name.removeprefix(BETWEEN): row for name, row in compared.items() if name.startswith(BETWEEN)}
    texts = [f"{_number(row['published'], 2)} on {source}" for source, row in between.items()]
    found.value("models.between", listed(texts), COMPARED)
    known = [float(row["published"]) for row in between.values() if _is_number(row["published"])]
    found.fact("models.between_low", bool(known) and max(known) < 0.5)
    metric_tau = [compared[QUANTITIES["metric_tau"][0]][model] for model in MODELS]
    found.fact("models.metrics_disagree", all(_is_number(text) and float(text) < 0.5 for text in metric_tau))
    of_pairs = {name.removeprefix(OF_PAIR): row for name, row in compared.items() if name.startswith(OF_PAIR)}
    common = [name for name, row in of_pairs.items() if all(row[model] != "0" for model in MODELS)]
    found.value("models.common_pairs", listed(common), COMPARED)
    found.fact("models.disjoint", not common)
    found.fact("models.serving_reverses", compared[QUANTITIES["reversals"][0]]["serving"] != "0")
    serving = {name: int(row["serving"]) for name, row in of_pairs.items() if row["serving"] != "0"}
    pairs = listed([f"{name} ({number(count, 0)})" for name, count in serving.items()])
    found.value("models.pairs.serving", pairs, COMPARED)
    found.fact("models.pair_reverses.published", compared[QUANTITIES["pair_regions"][0]]["published"] != "0")
    found.fact("models.pair_reverses.serving", compared[QUANTITIES["pair_regions"][0]]["serving"] != "0")


def _arms(found: Found, arms: Sequence[Row], differences: Sequence[Row]) -> None:
    run = next(row for row in arms if _arm(row["defect"], row["arm"]) == RUN)
    others = [row for row in arms if row is not run]
    total = int(run["supported_reversals"])
    regions = list(dict.fromkeys(spaced(row["region"]) for row in differences))
    found.value("arms.regions", listed(regions), DIFFERENCE)
    found.value("arms.run.reversals", none_or(total), ARMS)
    found.value("arms.run.tau", _number(run["mean_tau_b"], 2), ARMS)
    found.value("arms.n", number(len(others), 0), ARMS)
    signs = _signs(differences)
    found.fact("arms.run.pair_reversed", _reversed(signs.get(RUN, {})))
    for name, switch in (("cap", CAP), ("load", LOAD)):
        rows = [row for row in others if row["defect"] == switch]
        found.fact(f"arms.{name}", bool(rows))
        if rows:
            _switch(found, name, rows, run, signs)
    keeping = [row for row in others if row["defect"] not in (CAP, LOAD)]
    removing = [f"{row['defect']} ({row['vanished']})" for row in keeping if row["vanished"] != "0"]
    found.value("arms.others_removing", listed(removing), ARMS)
    found.fact("arms.others_removing", bool(removing))
    silent = list(dict.fromkeys(row["defect"] for row in keeping if row["vanished"] == row["new"] == "0"))
    found.value("arms.silent", listed(silent), ARMS)
    found.fact("arms.silent", bool(silent))
    moved = sum(int(row["places_moved"]) for row in keeping if row["defect"] in silent)
    found.fact("arms.silent_move", moved > 0)
    found.table(
        ARMS,
        ("defect", "instead", "mean tau-b", "kept", "gone", "new", "places moved", f"{PAIR[0]} less {PAIR[1]}"),
        [
            [
                *(("none", "the model as published") if row is run else (row["defect"], row["rule"])),
                _number(row["mean_tau_b"], 2),
                *(row[name] for name in ("kept", "vanished", "new", "places_moved")),
                _pair_text(differences, _arm(row["defect"], row["arm"])),
            ]
            for row in arms
        ],
    )


def _switch(found: Found, name: str, rows: Sequence[Row], run: Row, signs: dict) -> None:
    """Over all arms of a switch: from the least to the largest number, where they differ."""
    total = int(run["supported_reversals"])
    gone = sorted(int(row["vanished"]) for row in rows)
    found.value(f"arms.{name}.n", number(len(rows), 0), ARMS)
    found.value(f"arms.{name}.gone", span([number(n, 0) for n in gone]), ARMS)
    found.fact(f"arms.{name}.most", total > 0 and 2 * gone[0] > total)
    new = sorted(int(row["new"]) for row in rows)
    found.value(f"arms.{name}.new", span([none_or(n) for n in new]), ARMS)
    taus = [_number(row["mean_tau_b"], 2) for row in rows]
    found.value(f"arms.{name}.tau", span(sorted(taus)), ARMS)
    undefined = sum(int(row["tau_b_undefined"]) for row in rows)
    found.value(f"arms.{name}.tau_undefined", none_or(undefined), ARMS)
    found.fact(f"arms.{name}.tau_undefined", undefined > 0)
    still = [row["arm"] for row in rows if _reversed(signs.get((row["defect"], row["arm"]), {}))]
    found.fact(f"arms.{name}.pair_reversed", bool(still))


def _medians(found: Found, rankings: Sequence[Row]) -> None:
    """Median ANWG over schedulers, sources and regions, in the run and where load divides gaps alone."""
    for name, switch in (("run", RUN[0]), ("load", LOAD)):
        rows = [row["anwg"] for row in rankings if _arm(row["switch"], row["arm"])[0] == switch]
        known = [float(text) for text in rows if _is_number(text)]
        if known:
            found.value(f"arms.{name}.anwg", number(median(known)), ARM_RANKINGS)


def _signs(differences: Sequence[Row]) -> dict[tuple[str, str], dict[tuple[str, str], str]]:
    """By (defect, arm): the sign of the pair's difference at each region and source."""
    signs: dict = {}
    for row in differences:
        signs.setdefault(_arm(row["switch"], row["arm"]), {})[row["region"], row["source"]] = row["sign"]
    return signs


def _arm(switch: str, arm: str) -> tuple[str, str]:
    """The key of an arm; the tables say in words that the run itself has no switch."""
    return RUN if switch.startswith("none") else (switch, arm)


def _reversed(signs: dict[tuple[str, str], str]) -> bool:
    """Whether the pair is ahead on a source and behind on another in some region."""
    regions = {region for region, _ in signs}
    return any({"1", "-1"} <= {sign for (at, _), sign in signs.items() if at == region} for region in regions)


def _pair_text(differences: Sequence[Row], arm: tuple[str, str]) -> str:
    rows = [row["difference"] for row in differences if _arm(row["switch"], row["arm"]) == arm]
    return ", ".join(signed(float(text)) if _is_number(text) else text for text in rows)


def _is_number(text: str) -> bool:
    try:
        return float(text) == float(text)
    except ValueError:
        return False


def _number(text: str, digits: int) -> str:
    return number(float(text), digits) if _is_number(text) else text
