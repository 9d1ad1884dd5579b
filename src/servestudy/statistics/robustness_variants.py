"""What the robustness families leave out, in the order of the published study."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np

from servestudy.schedulers.registry import registered_schedulers
from servestudy.statistics.temporal_splits import in_study_order
from servestudy.statistics.window_values import WindowValues

FOUR_REGIONS = ("LOW", "PRE_KNEE", "KNEE", "OVERLOAD")


@dataclass(frozen=True)
class Variant:
    """`values` hold only the sources and schedulers of the variant; `regions` are those that it keeps."""

    family: str
    variant: str
    values: WindowValues
    regions: tuple[str, ...]

    def conditions(self) -> Iterator[tuple[str, str, str]]:
        """Region, source x, source y in order."""
        for region in self.regions:
            for source_x, source_y in combinations(self.values.sources, 2):
                yield region, source_x, source_y


def variants(values: WindowValues) -> list[Variant]:
    """All schedulers; without each source; four regions; without each mechanism family, of registered schedulers."""
    found = [Variant("PRIMARY_ONLY", "all schedulers", values, values.regions)]
    for left_out in in_study_order(values.sources):
        kept = replace(values, sources=tuple(source for source in values.sources if source != left_out))
        found.append(Variant("LEAVE_ONE_SOURCE_OUT", left_out, kept, values.regions))
    four = tuple(region for region in values.regions if region in FOUR_REGIONS)
    found.append(Variant("LOAD_CALIBRATION_SENSITIVITY", "four regions", values, four))
    registered = registered_schedulers()
    mechanism = {name: registered[name]["family"] for name in values.schedulers if name in registered}
    for left_out in sorted(set(mechanism.values())):
        kept = values.only(name for name in values.schedulers if mechanism.get(name) != left_out)
        found.append(Variant("LEAVE_ONE_POLICY_FAMILY_OUT", left_out, kept, values.regions))
    return found


def without_incomplete_windows(condition: np.ndarray) -> np.ndarray:
    """A condition [scheduler, window] with only the windows in which every scheduler has a value."""
    return condition[:, ~np.isnan(condition).any(axis=0)]


def only_if_complete(condition: np.ndarray) -> np.ndarray:
    """A condition [scheduler, window], without any window if a single value is undefined."""
    return condition[:, :0] if np.isnan(condition).any() else condition


UNDEFINED_RULES = {
    "undefined left out by scheduler": np.asarray,  # the study's rule
    "windows with undefined left out": without_incomplete_windows,
    "conditions with undefined left out": only_if_complete,
}
