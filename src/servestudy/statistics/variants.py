"""The run's values beside those of its variants: the same sources and schedulers simulated under another rule.

A variant is named by a whole number: an SLO multiplier, or requests per window.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from servestudy.errors import UserError
from servestudy.metrics import PRIMARY_METRIC
from servestudy.statistics.window_values import WindowValues, load_values


def load_variants(
    cells: Sequence[Path | str],
    variants: Mapping[int, Sequence[Path | str]],
    schedulers: Iterable[str] | None = None,
    same_windows: bool = True,
) -> tuple[WindowValues, dict[int, WindowValues]]:
    """Values of the run and of each variant by ascending number: primary metric only, schedulers in one order.

    `schedulers` None: those of the run. Raises UserError as `load_values`, and if a variant lacks a source or scheduler
    of the run, or has windows that the run has not (`same_windows`: or lacks some, or has them in another order).
    """
    reference = load_values(cells, schedulers)
    loaded = {number: load_values(paths, reference.schedulers) for number, paths in sorted(variants.items())}
    for number, values in loaded.items():
        if values.sources != reference.sources:
            raise UserError(
                f"variant {number} has the sources {', '.join(values.sources)}, the run has "
                f"{', '.join(reference.sources)}; give files of all sources"
            )
        for source in reference.sources:
            windows, others = values.windows[source], reference.windows[source]
            unknown = [window for window in windows if window not in others]
            if unknown or (same_windows and windows != others):
                which = f"window {unknown[0]} is not in the run" if unknown else "its windows are not those of the run"
                raise UserError(
                    f"variant {number}, source {source}: {which}; make the variant again from the run's windows"
                )
    return primary_only(reference), {number: primary_only(values) for number, values in loaded.items()}


def primary_only(values: WindowValues) -> WindowValues:
    """The same with the primary metric alone; raises UserError if it has no values."""
    if PRIMARY_METRIC not in values.metrics:
        raise UserError(f"no values of {PRIMARY_METRIC}, the only metric that this analysis looks at")
    place = values.metrics.index(PRIMARY_METRIC)
    arrays = {source: array[:, [place]] for source, array in values.values.items()}
    return replace(values, metrics=(PRIMARY_METRIC,), values=arrays)


def shared_regions(reference: WindowValues, variant: WindowValues) -> list[str]:
    """Regions that both have, in the study's order."""
    return [region for region in reference.regions if region in variant.regions]


def on_shared_windows(values: dict[int, WindowValues]) -> dict[int, WindowValues]:
    """Each with the windows that all have, in the order of the first; regions that all have.

    Raises UserError for a source without a shared window, or if no region is shared.
    """
    first = next(iter(values.values()))
    windows = {
        source: tuple(w for w in first.windows[source] if all(w in other.windows[source] for other in values.values()))
        for source in first.sources
    }
    regions = tuple(region for region in first.regions if all(region in other.regions for other in values.values()))
    empty = [f"window of {source}" for source in first.sources if not windows[source]]
    if empty or not regions:
        raise UserError(f"no {(empty or ['region'])[0]} is in the run and in all variants; make the variants again")
    return {number: _cut(of_number, regions, windows) for number, of_number in values.items()}


def _cut(values: WindowValues, regions: tuple[str, ...], windows: dict[str, tuple[str, ...]]) -> WindowValues:
    region_places = [values.regions.index(region) for region in regions]
    arrays = {}
    for source, array in values.values.items():
        place = {window: number for number, window in enumerate(values.windows[source])}
        arrays[source] = array[region_places][..., [place[window] for window in windows[source]]]
    return replace(values, regions=regions, windows=windows, values=arrays)
