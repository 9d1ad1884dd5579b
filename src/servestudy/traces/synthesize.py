"""Embedded traces: three synthetic raw files in the native formats of the published study's traces.

Every number comes from `embedded.yaml`, which says where it was fitted. Lengths are drawn from a mixture of
request kinds, arrivals from one of two gap models. Mix and rate change from regime to regime, so that windows
of one file differ. Results on these traces are not the published results (docs/EMBEDDED_TRACES.md).
"""

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import cache
from importlib.resources import files
from pathlib import Path

import numpy as np
import yaml

from servestudy.errors import UserError
from servestudy.files import atomic_path

MICROSECONDS = 1_000_000
AZURE_START = datetime(2024, 5, 12, tzinfo=UTC)  # first day of the published Azure 2024 week
BURSTGPT_START_S = 5_270_414  # first stamp of the published BurstGPT_without_fails_2.csv


@cache
def embedded_parameters() -> dict[str, dict]:
    """Parameters of each embedded source by source id, as `embedded.yaml` states and explains them."""
    return yaml.safe_load(files("servestudy.traces").joinpath("embedded.yaml").read_text(encoding="utf-8"))


def synthesize(source_id: str, out: Path) -> None:
    """Write the embedded trace `source_id` to `out`, in its native format; the same bytes every time.

    Source ids are the keys of `embedded.yaml`. Raises UserError for another id.
    """
    sources = embedded_parameters()
    if source_id not in sources:
        raise UserError(f"source {source_id!r} is not an embedded trace; choose one of {', '.join(sources)}")
    source = sources[source_id]
    arrival_us, kind, prompt_tokens, output_tokens = draw_requests(source)
    lines = WRITERS[source["format"]](arrival_us, kind, prompt_tokens, output_tokens)
    with atomic_path(out) as part, part.open("w", encoding="ascii", newline="") as file:
        file.writelines(lines)


def draw_requests(source: dict) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Draw one trace: arrivals (integer microseconds after the first), kinds, prompt tokens, output tokens.

    `source` is one entry of `embedded.yaml`. All four results have shape (rows,), in arrival order. Times and
    lengths are rounded to whole units as soon as they are drawn, so that the last digit of a logarithm, which
    may differ between machines, does not reach the file.
    """
    rng = np.random.default_rng(source["seed"])
    rows, kinds, regimes = source["rows"], source["kinds"], source["regimes"]
    shortest, longest = regimes["rows"]
    lengths = rng.integers(shortest, longest, size=rows // shortest + 1, endpoint=True)
    regime = np.repeat(np.arange(len(lengths)), lengths)[:rows]
    count = regime[-1] + 1

    mix = rng.dirichlet([regimes["mix_concentration"] * k["share"] for k in kinds], size=count)
    kind = (rng.random(rows)[:, None] >= np.cumsum(mix, axis=1)[regime, :-1]).sum(axis=1)
    prompt_tokens, output_tokens = draw_lengths(source, kind, regime, rng)

    # The rates are a grid in random order, so that a short file holds quiet and busy stretches alike.
    rates = RATE_GRIDS[regimes["rate_grid"]](*regimes["rate_rps"], count)
    rate_rps = rng.permutation(rates) / (mix @ [k["slowdown"] for k in kinds])
    arrival_us = ARRIVALS[source["arrivals"]["model"]](source["arrivals"], rate_rps, regime, rng)
    return arrival_us, kind, prompt_tokens, output_tokens


def draw_lengths(
    source: dict, kind: np.ndarray, regime: np.ndarray, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Prompt and output tokens (int64, shape (rows,)) of requests of the given kinds.

    A bivariate log-normal per kind; pairs outside 1 ... tokens_max are drawn again.
    """
    prompt, output = (
        {name: np.array([k[column][name] for k in source["kinds"]])[kind] for name in ("fixed", "median", "log_sd")}
        for column in ("prompt_tokens", "output_tokens")
    )
    level_log_sd = np.array([k["prompt_level_log_sd"] for k in source["kinds"]])
    level = np.exp(level_log_sd * rng.standard_normal((regime[-1] + 1, len(level_log_sd))))
    prompt["median"] = prompt["median"] * level[regime, kind]
    correlation = np.array([k["correlation"] for k in source["kinds"]])[kind]
    limits = np.array([source["tokens_max"]["prompt"], source["tokens_max"]["output"]])

    tokens = np.zeros((len(kind), 2), dtype=np.int64)
    while len(redo := np.flatnonzero(((tokens < 1) | (tokens > limits)).any(axis=1))):
        z_prompt, z_own = rng.standard_normal((2, len(redo)))
        z_output = correlation[redo] * z_prompt + np.sqrt(1 - correlation[redo] ** 2) * z_own
        for column, length, z in ((0, prompt, z_prompt), (1, output, z_output)):
            variable = length["median"][redo] * np.exp(length["log_sd"][redo] * z)
            tokens[redo, column] = np.rint(length["fixed"][redo] + variable)
    return tokens[:, 0], tokens[:, 1]


def steady_arrivals(model: dict, rate_rps: np.ndarray, regime: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Arrivals (us) with independent gamma gaps, cut to the clock of the trace. Gap shape 1 is a Poisson process."""
    gaps = rng.gamma(model["gap_shape"], MICROSECONDS / (model["gap_shape"] * rate_rps[regime]))
    ticks = np.cumsum(np.rint(gaps).astype(np.int64)) // model["clock_us"]
    return (ticks - ticks[0]) * model["clock_us"]


def gathered_arrivals(model: dict, rate_rps: np.ndarray, regime: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Arrivals (us) of a Poisson process that passes a gate: open at a few instants of a fixed cycle only.

    Each request leaves the gate with a log-normal delay of its own. The instants lie anywhere in the cycle and
    move with the regime.
    """
    cycle, instants, delay = model["cycle_us"], model["instants"], model["delay_us"]
    gaps = rng.exponential(MICROSECONDS / rate_rps[regime])
    slot = np.cumsum(np.rint(gaps).astype(np.int64)) // (cycle // instants)
    phase = np.sort(rng.integers(cycle, size=(len(rate_rps), instants)), axis=1)
    late = np.rint(delay["median"] * np.exp(delay["log_sd"] * rng.standard_normal(len(regime)))).astype(np.int64)
    arrival = np.sort(slot // instants * cycle + phase[regime, slot % instants] + late)
    return arrival - arrival[0]


def even_in_time(low: float, high: float, count: int) -> np.ndarray:
    """Rates whose regimes, all of like length in rows, spread evenly over low ... high by the time they take."""
    return np.sqrt(np.linspace(low**2, high**2, count))


RATE_GRIDS = {"even_in_time": even_in_time, "geometric": np.geomspace}
ARRIVALS = {"steady": steady_arrivals, "gathered": gathered_arrivals}


def azure_lines(
    arrival_us: np.ndarray, kind: np.ndarray, prompt_tokens: np.ndarray, output_tokens: np.ndarray
) -> Iterator[str]:
    """Azure 2024 CSV. `str` of a datetime leaves out a fraction of zero, as the published file does.

    Line ends are CRLF, as in the published 2023 files; the size of the 2024 file, 41.6 bytes a row, fits that.
    """
    yield "TIMESTAMP,ContextTokens,GeneratedTokens\r\n"
    for us, prompt, output in zip(arrival_us.tolist(), prompt_tokens, output_tokens, strict=True):
        yield f"{AZURE_START + timedelta(microseconds=us)},{prompt},{output}\r\n"


def bailian_lines(
    arrival_us: np.ndarray, kind: np.ndarray, prompt_tokens: np.ndarray, output_tokens: np.ndarray
) -> Iterator[str]:
    """Bailian/Qwen JSON lines. Every request is a chat of its own; cache block hashes are not modelled."""
    rows = zip(arrival_us.tolist(), prompt_tokens.tolist(), output_tokens.tolist(), strict=True)
    for chat, (us, prompt, output) in enumerate(rows):
        record = {
            "chat_id": chat,
            "parent_chat_id": -1,
            "timestamp": us / MICROSECONDS,
            "input_length": prompt,
            "output_length": output,
            "type": "text",
            "turn": 1,
            "hash_ids": [],
        }
        yield json.dumps(record) + "\n"


def burstgpt_lines(
    arrival_us: np.ndarray, kind: np.ndarray, prompt_tokens: np.ndarray, output_tokens: np.ndarray
) -> Iterator[str]:
    """BurstGPT CSV of six columns. The first kind is the templated API call."""
    yield "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n"
    seconds = (arrival_us // MICROSECONDS + BURSTGPT_START_S).tolist()
    for second, is_api, prompt, output in zip(seconds, kind == 0, prompt_tokens, output_tokens, strict=True):
        log = "API log" if is_api else "Conversation log"
        yield f"{second},ChatGPT,{prompt},{output},{prompt + output},{log}\n"


WRITERS = {"azure": azure_lines, "bailian": bailian_lines, "burstgpt": burstgpt_lines}
