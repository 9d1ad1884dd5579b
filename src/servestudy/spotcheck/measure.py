"""A measurement: calibrates windows, replays the plan's cells and writes each as it ends. Resumes where it was cut.

Imports of the engine are inside functions: what is measured can be planned and read without it.
"""

import json
import os
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import numpy as np

from servestudy.errors import UserError
from servestudy.files import atomic_path
from servestudy.spotcheck.calibrate import LIMIT_S, Calibration, calibrate
from servestudy.spotcheck.episode import Episode
from servestudy.spotcheck.plan import Cell, pairs
from servestudy.spotcheck.policy import ARMS
from servestudy.spotcheck.presets import BLOCK_TOKENS, Preset
from servestudy.spotcheck.replay import Engine, Replay, replay

LATE_S = 0.05
"""Submissions later than this beyond the slow steps of the calibration mean that the machine was disturbed."""
TRIES = 3
STEP_COLUMNS = ("tokens", "requests", "kv_read", "held", "running", "waiting", "kv_blocks", "evictions")


def measure(
    episodes: Sequence[Episode],
    preset: Preset,
    engine: Engine,
    record: dict,
    out: Path,
    limit_s: float,
    repetitions: int,
) -> None:
    """Measure what of the plan is not in `out` yet, until `limit_s` are over; no pair begins that would not fit.

    `record` is the provenance. Raises UserError if `out` holds the measurements of another engine, or if a window does
    not fit into the engine.
    """
    started = time.monotonic()
    _claim(out, record)
    episodes = [episode.shortened(preset.tokens_per_request, preset.requests) for episode in episodes]
    for episode in episodes:
        _check_fits(episode, preset)
    _say(f"{engine.name}, {record['device']['name']}, preset {preset.name}; warm-up")
    replay(
        engine,
        episodes[0].shortened(preset.tokens_per_request, 20).jobs(None, preset.vocabulary),
        ARMS["fcfs"],
        preset.kv_tokens,
        engine.make_clock(),
    )
    longest_s = 0.0
    for episode, cells in pairs(episodes, repetitions):
        missing = [cell for cell in cells if not _is_measured(cell_file(out, cell), episode)]
        if not missing:
            continue
        left_s = limit_s - (time.monotonic() - started)
        if left_s < longest_s:
            _say(f"{left_s:.0f} s are left, a pair took {longest_s:.0f} s: stopped; the same command goes on from here")
            return
        begun = time.monotonic()
        calibration = _calibration(out, engine, episode, preset, record["fingerprint"])
        if calibration is None:
            continue
        for cell in missing:
            _measure_cell(out, engine, episode, cell, preset, calibration, record["fingerprint"])
        longest_s = max(longest_s, time.monotonic() - begun)
    _say("all cells are measured")


def cell_file(out: Path, cell: Cell) -> Path:
    """Where a cell's measurement lies."""
    return out / "cells" / f"{cell.name}.json"


def _claim(out: Path, record: dict) -> None:
    path = out / "provenance.json"
    if path.is_file():
        before = json.loads(path.read_text(encoding="utf-8"))
        if before["fingerprint"] != record["fingerprint"]:
            differing = [name for name in ("device", "packages", "preset", "engine") if before[name] != record[name]]
            raise UserError(
                f"{path}: the measurements there are of another {', '.join(differing)}; give another --out, or remove "
                f"{out} to measure anew"
            )
    _write_json(path, record)


def _check_fits(episode: Episode, preset: Preset) -> None:
    """Under the whole-prompt rule a request that never fits would block the queue for ever."""
    longest = int((episode.prompt_tokens + episode.output_tokens).max())
    if longest + BLOCK_TOKENS > preset.tight_kv_tokens:
        raise UserError(
            f"{episode.window_id}: a request has {longest} tokens, more than the {preset.tight_kv_tokens} of KV in the "
            f"cells with little KV of preset {preset.name}; leave the window out or raise tight_kv_tokens"
        )


def _calibration(out: Path, engine: Engine, episode: Episode, preset: Preset, fingerprint: str) -> Calibration | None:
    """The stored calibration of a window if it is of this engine and these requests, else a new one.

    None if that fails.
    """
    path = out / "calibration" / f"{episode.source}.{episode.window_number:02d}.json"
    of_what = {"fingerprint": fingerprint, "episode_sha256": episode.sha256}
    if path.is_file():
        stored = json.loads(path.read_text(encoding="utf-8"))
        if all(stored[name] == value for name, value in of_what.items()):
            return Calibration.from_json(stored)
    _say(f"{episode.source} window {episode.window_number}: calibrate")
    try:
        found = calibrate(engine, episode, preset)
    except UserError:
        raise
    except Exception as error:
        _say(f"{episode.source} window {episode.window_number}: left out, calibration failed: {in_one_line(error)}")
        return None
    key = {"source": episode.source, "window_id": episode.window_id, "window_number": episode.window_number}
    _write_json(path, {**key, **of_what, **found.as_json()})
    return found


def _measure_cell(
    out: Path, engine: Engine, episode: Episode, cell: Cell, preset: Preset, calibration: Calibration, fingerprint: str
) -> None:
    """Replay a cell, up to TRIES times if it is disturbed, and write it; one that fails is written as invalid."""
    arm = ARMS[cell.arm]
    rate = cell.load * calibration.rate_rps
    tbt_s = arm.tbt_s or calibration.tbt_s
    key = {
        **asdict(cell),
        "window_id": episode.window_id,
        "episode_sha256": episode.sha256,
        "length_scale": episode.length_scale,
        "fingerprint": fingerprint,
        "rate_rps": rate,
        "kv_tokens": cell.kv_tokens(preset),
        "tbt_s": tbt_s,
    }
    for attempt in range(1, TRIES + 1):
        content = {**key, "attempt": attempt, "started_unix_s": round(time.time())}
        try:
            result = replay(
                engine,
                episode.jobs(rate, preset.vocabulary, tbt_s),
                arm,
                cell.kv_tokens(preset),
                engine.make_clock(),
                LIMIT_S,
            )
        except Exception as error:  # the engine's own, out of memory too: the other cells go on
            content |= {"valid": False, "why": in_one_line(error)}
        else:
            content |= result_as_json(episode, cell, rate, result, engine.busy_s)
            content |= _verdict(content, calibration, arm.client_threads)
        if content["valid"] or "late_s" not in content:
            break
    _write_json(cell_file(out, cell), content)
    state = f"{content['makespan_s']:.1f} s" if content["valid"] else f"INVALID: {content['why']}"
    _say(f"{cell.name}: {state}")


def result_as_json(episode: Episode, cell: Cell, rate: float, result: Replay, busy_s: float) -> dict:
    """A replay as it is stored: all steps, and for each request the steps that made its tokens."""
    factor = episode.time_factor(rate)
    arrivals = ((episode.arrival_s - episode.arrival_s[0]) * factor).tolist()
    late_s = max(result.submitted_s[number] - arrival_s for number, arrival_s in enumerate(arrivals))
    return {
        "makespan_s": result.makespan_s,
        "late_s": late_s,
        "longest_step_s": float(np.max(np.subtract(result.end_s, result.start_s))),
        "busy_share": busy_s / result.makespan_s if busy_s else None,
        "requests": {
            "arrival_s": arrivals,
            "deadline_s": episode.published_deadline_s(rate).tolist(),
            "prompt_tokens": episode.prompt_tokens.tolist(),
            "output_tokens": episode.output_tokens.tolist(),
            "evictions": [result.evictions.get(number, 0) for number in range(len(arrivals))],
            "token_steps": [result.token_steps[number] for number in range(len(arrivals))],
        },
        "steps": {
            "start_s": result.start_s,
            "end_s": result.end_s,
            **{name: [getattr(step, name) for step in result.steps] for name in STEP_COLUMNS},
        },
    }


def _verdict(content: dict, calibration: Calibration, client_threads: int | None) -> dict:
    """Whether the machine let the replay run undisturbed. A client with few threads submits late by design."""
    usual_s = LATE_S + 2 * calibration.slow_step_s
    if content["longest_step_s"] > usual_s:
        return {
            "valid": False,
            "why": f"disturbed: a step took {content['longest_step_s']:.3f} s, usual {usual_s:.3f} s",
        }
    if client_threads is None and content["late_s"] > usual_s:
        return {"valid": False, "why": f"disturbed: a request was submitted {content['late_s']:.3f} s late"}
    return {"valid": True, "why": ""}


def _is_measured(path: Path, episode: Episode) -> bool:
    """Whether the file holds a valid measurement of these very requests."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        return content["valid"] and content["episode_sha256"] == episode.sha256
    except (OSError, ValueError, KeyError):
        return False


def in_one_line(error: BaseException) -> str:
    """Kind and first line of an error, without paths."""
    lines = str(error).strip().splitlines() or [""]
    text = " ".join(word for word in lines[0].split() if os.sep not in word)
    return f"{type(error).__name__}: {text}"[:300]


def _write_json(path: Path, content: dict) -> None:
    with atomic_path(path) as part:
        text = json.dumps(content, default=float, separators=(",", ":"), indent=None)
        part.write_text(text + "\n", encoding="utf-8")


def _say(text: str) -> None:
    print(f"spotcheck: {text}", file=sys.stderr, flush=True)
