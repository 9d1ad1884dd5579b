"""Starting an engine for a measurement: packages, device, model, self-test; each failure is one clear line."""

import os
from dataclasses import replace
from pathlib import Path

from servestudy.errors import UserError
from servestudy.spotcheck.episode import read_episodes
from servestudy.spotcheck.presets import PRESETS, Preset
from servestudy.spotcheck.replay import Engine

SETTINGS = {"OMP_WAIT_POLICY": "PASSIVE", "GOMP_SPINCOUNT": "0", "HF_HUB_OFFLINE": "1"}
"""Waiting OpenMP threads that spin make steps of milliseconds take seconds on a busy CPU. Nothing is downloaded."""
INSTALL = "`make spotcheck` installs it, or: pip install -e .[spotcheck]"


def run_measurement(
    windows: Path,
    device: str,
    preset_name: str,
    traces: str,
    out: Path,
    limit_s: float,
    repetitions: int,
    dtype: str | None = None,
    engine_name: str = "transformers",
) -> None:
    """Measure the windows of a CSV, which are of `traces`, on a device.

    Raises UserError for all that the user can mend.
    """
    os.environ.update(SETTINGS)  # before torch is loaded
    preset = PRESETS[preset_name]
    preset = replace(preset, dtype=dtype or preset.dtype)
    episodes = read_episodes(windows)
    try:
        import torch
    except ImportError:
        raise UserError(f"the spot-check needs the package torch: {INSTALL}") from None
    if device == "cuda" and not torch.cuda.is_available():
        raise UserError("torch finds no CUDA device here; use --device cpu, or a machine with a GPU and its driver")
    from servestudy.spotcheck.measure import in_one_line, measure
    from servestudy.spotcheck.provenance import provenance

    start = {"transformers": _transformers, "vllm": _vllm}[engine_name]
    try:
        engine, error, attention = start(preset, device)
    except RuntimeError as problem:
        hint = "; a smaller --preset needs less memory" if "memory" in str(problem) else ""
        raise UserError(f"the engine does not start on {device}: {in_one_line(problem)}{hint}") from None
    record = provenance(device, preset, engine, error, attention)
    record["traces"] = traces
    measure(episodes, preset, engine, record, out, limit_s, repetitions)


def _transformers(preset: Preset, device: str) -> tuple[Engine, float, str]:
    """The engine, the error of its attention's self-test, and what attention it has."""
    import torch

    try:
        from servestudy.spotcheck.attention import self_test
        from servestudy.spotcheck.backends.transformers_cb import ATTENTION, TransformersEngine
    except ImportError as error:
        raise UserError(f"the spot-check needs transformers 5.17 to 5.19 ({error}): {INSTALL}") from None
    if device == "cpu":
        torch.set_num_threads(1)
    engine = TransformersEngine(preset, device)
    return engine, self_test(device, engine.dtype), f"{ATTENTION} replaced by attention over packed sequences"


def _vllm(preset: Preset, device: str) -> tuple[Engine, float | None, str]:
    from servestudy.spotcheck.backends.vllm_v1 import VllmEngine

    return VllmEngine(preset, device, preset.kv_tokens), None, "vLLM's own"
