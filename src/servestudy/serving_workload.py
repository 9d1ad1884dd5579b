"""The requests of a window under the serving model: predicted lengths, classes and targets in seconds.

Against the published synthesis (workload.py): the prediction noise has a stream of its own in each window and no cap,
requests belong to several classes, and a request is judged by its true output length, which schedulers do not see.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from servestudy.seeds import stream
from servestudy.windows.frozen import FrozenWindow
from servestudy.workload import NOISE_SIGMA, Workload, synthesize


@dataclass(frozen=True)
class SloClass:
    """What the users of a class ask: first token within `ttft_s`, each further token within `tbt_s`."""

    share: float
    weight: float
    ttft_s: float
    tbt_s: float


def serving_workload(window: FrozenWindow, classes: Mapping[str, SloClass]) -> Workload:
    """The unscaled requests of a window.

    The deadline of a completion is TTFT target + TBT target x (output tokens - 1) after the arrival: of the predicted
    output in `deadline_s`, which schedulers see; of the true output in `judged_deadline_s`.

    Raises UserError as `workload.synthesize`.
    """
    base = synthesize(window.time_s, window.prompt_tokens, window.output_tokens, window.number)
    noise = stream("predicted output", window.source, window.window_id).lognormal(0.0, NOISE_SIGMA, len(base))
    predicted = np.maximum(1, np.rint(base.output_tokens * noise)).astype(np.int64)
    names = list(classes)
    share = np.array([classes[name].share for name in names])
    drawn = stream("class", window.source, window.window_id).choice(len(names), len(base), p=share / share.sum())
    weight, ttft_s, tbt_s = (
        np.array([getattr(classes[name], field) for name in names])[drawn] for field in ("weight", "ttft_s", "tbt_s")
    )
    first_token_by = base.arrival_s + ttft_s
    return replace(
        base,
        predicted_output_tokens=predicted,
        deadline_s=first_token_by + tbt_s * (predicted - 1),
        weight=weight,
        class_id=[names[number] for number in drawn],
        ttft_deadline_s=first_token_by,
        tbt_target_s=tbt_s,
        judged_deadline_s=first_token_by + tbt_s * (base.output_tokens - 1),
    )
