"""Tier mixes: the share of each of K tiers (tier 0 is the most important).

Source: the published study's priority sampler, in its two stored versions. `v2` is the reference, defined alike for
every K; `v1` is older and jumps with K.
"""

import math
from itertools import accumulate

from servestudy.errors import UserError

ROUND_ROBIN = "round_robin"
_V1_GAUSSIAN = {2: (0.3, 0.7), 3: (0.15, 0.70, 0.15), 5: (0.05, 0.20, 0.50, 0.20, 0.05)}
_V1_ENTERPRISE = {2: (0.25, 0.75), 3: (0.10, 0.30, 0.60), 5: (0.10, 0.30, 0.50, 0.08, 0.02)}


def _uniform(tiers: int) -> list[float]:
    return [1.0] * tiers


def _gaussian_v1(tiers: int) -> list[float]:
    return list(_V1_GAUSSIAN.get(tiers, ())) or [math.exp(-((i - tiers // 2) ** 2) / (tiers / 2)) for i in range(tiers)]


def _gaussian_v2(tiers: int) -> list[float]:
    return [math.exp(-0.5 * ((i - (tiers - 1) / 2) / (tiers / 4)) ** 2) for i in range(tiers)]


def _enterprise_v1(tiers: int) -> list[float]:
    return list(_V1_ENTERPRISE.get(tiers, ())) or [0.10, *[0.30 / (tiers - 2)] * (tiers - 2), 0.60]


def _enterprise_v2(tiers: int) -> list[float]:
    return [0.25, 0.75] if tiers == 2 else [0.10, *[0.70 / (tiers - 2)] * (tiers - 2), 0.20]


def _power_law_v2(tiers: int) -> list[float]:
    return [(i + 1) ** -1.5 for i in range(tiers)]


MIXES = {
    "uniform": _uniform,
    "gaussian_v2": _gaussian_v2,
    "enterprise_v2": _enterprise_v2,
    "power_law_v2": _power_law_v2,
    "gaussian_v1": _gaussian_v1,
    "enterprise_v1": _enterprise_v1,
}
"""Random mixes by name: K -> weights, not normalised. The first three are the study's, the last two sensitivity."""
MIX_NAMES = (*MIXES, ROUND_ROBIN)


def shares(mix: str, tiers: int) -> list[float]:
    """Shares of tiers 0 .. K-1, adding up to 1. Round robin gives every tier 1/K.

    Raises UserError for an unknown mix or for K below 1.
    """
    if mix not in MIX_NAMES:
        raise UserError(f"unknown tier mix {mix!r}; allowed: {', '.join(MIX_NAMES)}")
    if tiers < 1:
        raise UserError(f"{tiers} tiers; allowed: 1 or more")
    if tiers == 1:
        return [1.0]
    weights = MIXES.get(mix, _uniform)(tiers)
    total = math.fsum(weights)
    return [weight / total for weight in weights]


def cumulative(mix: str, tiers: int) -> list[float]:
    """Running sums of `shares`, as the study adds them; the last one is set to 1 so that every draw finds a tier."""
    return [*list(accumulate(shares(mix, tiers)))[:-1], 1.0]
