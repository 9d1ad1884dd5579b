"""Random streams of the serving model and of the second study: each from the names of what it is for.

(The published portability model prescribes its seeds; see workload.py.)
"""

import hashlib

import numpy as np


def stream(*names: str | int) -> np.random.Generator:
    """A generator that depends on these names and on nothing else: the same in every run and on every machine."""
    text = "\x1f".join(map(str, names))
    return np.random.default_rng(int.from_bytes(hashlib.sha256(text.encode()).digest()[:16]))
