"""BurstGPT: CSV with Timestamp (seconds, whole or with a fraction), Request tokens, Response tokens.

The files of release 1 have six columns, later ones eight (Session ID, Elapsed time). A failed request has
0 response tokens, so it is not a valid row.
"""

import re

import numpy as np
import pyarrow as pa

from servestudy.traces.formats import CsvFormat

NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")


def times(seconds: pa.ChunkedArray) -> np.ndarray:
    """The float64 column itself."""
    return seconds.to_numpy()


def parse_time(text: str) -> float:
    """One text to seconds; raises ValueError."""
    text = text.strip(" \t")
    if not NUMBER.fullmatch(text):
        raise ValueError("Timestamp is not a number")
    return float(text)


FORMAT = CsvFormat("Timestamp", "Request tokens", "Response tokens", pa.float64(), times, parse_time)
