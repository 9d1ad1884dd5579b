"""Bailian/Qwen usage traces: JSON lines, `timestamp` in seconds since the start of the trace."""

from servestudy.traces.formats import JsonlFormat

FORMAT = JsonlFormat("timestamp", "input_length", "output_length", seconds=float)
