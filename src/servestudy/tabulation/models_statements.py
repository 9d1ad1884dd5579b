"""The sentences of the table that sets the two engine models side by side, made from values."""

from collections.abc import Sequence
from numbers import Integral

import pandas as pd

from servestudy.models_compared import Reversals
from servestudy.statistics.pair_difference import PAIR
from servestudy.workload import REGIONS

ORDER = {1: "ahead", -1: "behind", 0: "not told apart"}


def compared(quantity: str, published: object, serving: object) -> str:
    """`Quantity: 0.81 published, 0.62 serving, lower by 0.19.` Counts stay whole; words, as `never`, stay words."""
    texts = [_text(value) for value in (published, serving)]
    start = f"{quantity[0].upper()}{quantity[1:]}: {texts[0]} published, {texts[1]} serving"
    if _is_number(published) and _is_number(serving):
        change = serving - published
        by = _text(abs(change))
        if change and by == "0.00":
            return f"{start}, a difference below 0.005."
        return f"{start}, {'higher' if change > 0 else 'lower'} by {by}." if change else f"{start}, the same."
    return f"{start}{', the same' if texts[0] == texts[1] else ''}."


def _is_number(value: object) -> bool:
    return not isinstance(value, str) and pd.notna(value)


def _text(value: object) -> str:
    if isinstance(value, str):
        return value
    if pd.isna(value):
        return "undefined"
    return str(value) if isinstance(value, Integral) else f"{value:.2f}"


def same_schedulers(published: Sequence[str], serving: Sequence[str]) -> str:
    """Whether both models rank the same schedulers."""
    if set(published) == set(serving):
        return f"Like for like: both models rank the same {len(published)} primary schedulers."
    alone = [
        f"only {model}: {', '.join(sorted(set(own) - set(other)))}"
        for model, own, other in (("published", published, serving), ("serving", serving, published))
        if set(own) - set(other)
    ]
    return f"Not like for like: the models rank other schedulers ({'; '.join(alone)})."


def shared_reversals(found: Reversals) -> str:
    """How many supported reversals there are, and how many are the same."""
    pairs = sorted({" and ".join(key[3:]) for key in found.both})
    same = f" ({'; '.join(pairs)})" if pairs else ""
    return (
        f"{len(found.published)} supported reversals under the published model, {len(found.serving)} under the serving "
        f"model; {len(found.both)} are the same{same}."
    )


def places_changed(differences: pd.DataFrame) -> list[str]:
    """Load regions in which one source has an interval above 0 and another one below."""
    signs = differences.groupby("region")["sign"].agg(set)
    return [region for region in REGIONS if {1, -1} <= signs.get(region, set())]


def pair_order(source: str, region: str, published: pd.Series, serving: pd.Series) -> str:
    """Who of PAIR is ahead under each model, and whether that is the same; each has difference, low, high, sign."""
    told = [_order(published), _order(serving)]
    signs = [None if pd.isna(side["difference"]) else int(side["sign"]) for side in (published, serving)]
    if None in signs:
        verdict = "not comparable"
    elif 0 in signs:
        verdict = "the same" if signs == [0, 0] else "told apart in one model only"
    else:
        verdict = "the same order" if signs[0] == signs[1] else "the opposite order"
    return (
        f"{PAIR[0]} against {PAIR[1]} on {source} at {region}: {told[0]} under the published model, {told[1]} under "
        f"the serving model, {verdict}."
    )


def _order(side: pd.Series) -> str:
    if pd.isna(side["difference"]):
        return "without a window in common"
    return f"{ORDER[int(side['sign'])]} ({side['difference']:+.3f})"
