"""Mooncake traces: JSON lines, `timestamp` in milliseconds since the start of the trace."""

from servestudy.traces.formats import JsonlFormat

FORMAT = JsonlFormat("timestamp", "input_length", "output_length", seconds=lambda milliseconds: milliseconds / 1000)
