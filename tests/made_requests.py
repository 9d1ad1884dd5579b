"""Requests of the spot-check's equivalence tests: (arrival_s, prompt tokens, output tokens)."""

import random
from math import log


def made_requests(rate_rps: float, n: int = 300) -> list[tuple[float, int, int]]:
    """Poisson arrivals; log-normal prompts of median 120 and outputs of median 40 tokens, cut; always the same."""
    draws, time_s, rows = random.Random(3), 0.0, []
    for _ in range(n):
        time_s += draws.expovariate(rate_rps)
        prompt = min(1500, max(4, int(draws.lognormvariate(log(120), 1.0))))
        rows.append((time_s, prompt, min(150, max(2, int(draws.lognormvariate(log(40), 0.7))))))
    return rows
