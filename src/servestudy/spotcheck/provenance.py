"""On what a measurement was made: enough to judge and repeat it, and no name or path of the machine."""

import hashlib
import json
import os
import platform
import subprocess
import sys
from dataclasses import asdict
from datetime import UTC, datetime
from importlib import metadata

from servestudy.code_files import code_files
from servestudy.spotcheck.presets import SEED, Preset
from servestudy.spotcheck.replay import Engine

VARIABLES = ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "OMP_NUM_THREADS", "HF_HUB_OFFLINE")
PACKAGES = ("torch", "transformers", "numpy", "huggingface_hub", "tokenizers", "safetensors")


def fingerprint(record: dict) -> str:
    """Short hash of what decides about times: device, versions, model, engine. Code and lateness are not among it."""
    text = json.dumps({name: record[name] for name in ("device", "packages", "preset", "engine")}, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def provenance(device: str, preset: Preset, engine: Engine, attention_error: float | None, attention: str) -> dict:
    """The record, with its fingerprint."""
    record = {
        "measured_on": datetime.now(UTC).date().isoformat(),
        "device": device_facts(device),
        "python": platform.python_version(),
        "packages": {name: _version(name) for name in PACKAGES},
        "preset": asdict(preset),
        "engine": {
            "name": engine.name,
            "attention": attention,
            "clock": type(engine.make_clock()).__name__,
            "block_tokens": engine.block_tokens,
            "safety_margin": 0.0,
            "prefix_sharing": False,
            "cuda_graphs": False,
            "chunked_prefill": True,
        },
        "model_seed": SEED,
        "attention_self_test_error": attention_error,
        "code_sha256": _code_hash(),
        "environment": {name: os.environ.get(name) for name in VARIABLES},
        "options": [word for word in sys.argv[1:] if os.sep not in word],
    }
    record["fingerprint"] = fingerprint(record)
    return record


def device_facts(device: str) -> dict:
    """Kind and name of the device; driver and CUDA of a GPU, threads that torch uses of a CPU."""
    import torch

    if device == "cpu":
        return {"kind": "cpu", "name": _cpu_name(), "cores": os.cpu_count(), "torch_threads": torch.get_num_threads()}
    return {
        "kind": "cuda",
        "name": torch.cuda.get_device_name(),
        "memory_bytes": torch.cuda.get_device_properties(0).total_memory,
        "cuda": torch.version.cuda,
        "driver": _driver(),
    }


def _cpu_name() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            names = [line.partition(":")[2].strip() for line in file if line.startswith("model name")]
    except OSError:
        names = []
    return names[0] if names else platform.machine()


def _driver() -> str | None:
    try:
        command = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
        return subprocess.run(command, capture_output=True, text=True, timeout=20, check=True).stdout.split()[0]
    except (OSError, subprocess.SubprocessError, IndexError):
        return None


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _code_hash() -> str:
    digest = hashlib.sha256()
    for path in code_files("servestudy.spotcheck.measure", "servestudy.spotcheck.backends.transformers_cb"):
        digest.update(path.read_bytes())
    return digest.hexdigest()
