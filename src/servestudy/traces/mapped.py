"""Anyone's CSV or JSON lines: the format that a column map describes."""

from collections.abc import Callable

from servestudy.traces import azure, burstgpt
from servestudy.traces.column_map import SECONDS_PER_UNIT, STAMP, ColumnMap
from servestudy.traces.formats import CsvFormat, JsonlFormat


def mapped_csv(columns: ColumnMap) -> CsvFormat:
    """Comma-separated, without quotes; a numeric time, as the double that its text denotes, is divided by its unit."""
    time, prompt, output, unit = columns
    if unit == STAMP:
        layout = azure.FORMAT
        return CsvFormat(time, prompt, output, layout.time_type, layout.times, _naming(time, layout.parse_time))
    layout, per_second = burstgpt.FORMAT, SECONDS_PER_UNIT[unit]
    parse = _naming(time, layout.parse_time)
    return CsvFormat(
        time,
        prompt,
        output,
        layout.time_type,
        lambda numbers: layout.times(numbers) / per_second,
        lambda text: parse(text) / per_second,
    )


def mapped_jsonl(columns: ColumnMap) -> JsonlFormat:
    """One JSON object a line; a stamp is a text, any other time a number."""
    time, prompt, output, unit = columns
    if unit == STAMP:
        return JsonlFormat(time, prompt, output, _naming(time, azure.FORMAT.parse_time), time_is_text=True)
    per_second = SECONDS_PER_UNIT[unit]
    return JsonlFormat(time, prompt, output, lambda number: number / per_second)


def _naming(name: str, parse: Callable[[str], float]) -> Callable[[str], float]:
    """The same, but its ValueError names this column instead of the native format's."""

    def parse_named(text: str) -> float:
        try:
            return parse(text)
        except ValueError as error:
            raise ValueError(f"{name} {str(error).partition(' ')[2]}") from None

    return parse_named
