"""Service estimates that several published schedulers share.

The study's estimate charges half a step for each prompt token although its engine prefills for free, so laxity is
too pessimistic for long prompts. That is a published property and is reproduced here; the audit's
`laxity_charges_prefill` changes it.
"""

import math

from servestudy.schedulers.protocol import UNTIL_EVENT, Request

STEPS_PER_PROMPT_TOKEN = 0.5
STEPS_PER_OUTPUT_TOKEN = 1.0
STEP_S = 0.001


def service_steps(request: Request, per_prompt_token: float = STEPS_PER_PROMPT_TOKEN) -> float:
    """Estimated service in simulator steps."""
    return (per_prompt_token * request.prompt_tokens) + (STEPS_PER_OUTPUT_TOKEN * request.predicted_output_tokens)


def laxity_s(request: Request, now_s: float, per_prompt_token: float = STEPS_PER_PROMPT_TOKEN) -> float:
    """Seconds that remain before a request must start to meet its deadline."""
    return (request.deadline_s - now_s) - service_steps(request, per_prompt_token) * STEP_S


def safe_steps_until(laxity: float, threshold: float) -> int:
    """A number of steps for which a request's laxity (s) certainly stays above `threshold` (s).

    A step short of the estimate: the exact comparison of floats is left to the next decision.
    """
    if math.isinf(laxity):
        return UNTIL_EVENT
    return max(1, math.floor((laxity - threshold) / STEP_S) - 1)
