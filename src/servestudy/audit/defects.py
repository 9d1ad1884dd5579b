"""The known defects of the published model, each with the arms that an ablation can choose.

An arm is plain data: what it changes in `Rules`, by section. The first arm of each switch is `published` and changes
nothing.
"""

from typing import Any

from servestudy.audit.arms import Arm, Change, Diagnostic, Switch
from servestudy.audit.rules import NO_LIMIT

CHUNKED = ("vllm_chunked_prefill_faithful", "sarathi_faithful", "slai_faithful")
ESTIMATING = (
    "least_laxity_first",
    "estimated_service_time_first",
    "weighted_fair_share",
    "kv_constrained_online",
    "admission_control",
    "scorpio_style_slo_guard",
)


def _for(*schedulers: str, **parameters: Any) -> Change:
    """A change of the same parameters in several schedulers."""
    return {"parameters": {name: parameters for name in schedulers}}


def _arms(**changed: tuple[str, Change]) -> dict[str, Arm]:
    return {"published": Arm("the published rule", {}), **{name: Arm(*arm) for name, arm in changed.items()}}


def _vllm(**values: Any) -> Change:
    return _for("vllm_faithful", **values)


def _slai(**values: Any) -> Change:
    return _for("slai_faithful", **values)


def _scorpio(**values: Any) -> Change:
    return _for("scorpio_style_slo_guard", **values)


def _modelled(**engine: Any) -> Change:
    """Prefill takes a budget; the chunked schedulers hand out the chunks that they count."""
    counting = {} if "prefill_cost" in engine else _for(*CHUNKED, prefill_count="modelled")
    return {"engine": {"prefill": "decode_protected", **engine}, **counting}


CLASSES = (("critical", 4.0, 0.2), ("standard", 2.0, 0.3), ("batch", 1.0, 0.5))
"""Class, weight, share of requests: of the arm `three_classes`. SLAI's tiers know these names."""

SWITCHES: dict[str, Switch] = {
    "prefill_free": Switch(
        "Prefill costs no time and no budget.",
        _arms(
            decode_protected=("decodes first; prompts share 4096 tokens a step, 512 each", _modelled()),
            shared_contention=(
                "one budget of 4096 tokens a step in order of arrival",
                _modelled(prefill="shared_contention"),
            ),
            decode_protected_cost_4=("as decode_protected, a prompt token takes 4", _modelled(prefill_cost=4.0)),
        ),
    ),
    "batch_free": Switch(
        "A step takes 1 ms whatever the batch and the KV content.",
        _arms(
            linear=(
                "a step takes 1 ms, and up to 1 ms more for a full batch and for a full KV cache",
                {"engine": {"batch_slowdown": 1.0, "kv_slowdown": 1.0}},
            )
        ),
    ),
    "laxity_units": Switch(
        "least_laxity_first subtracts steps from seconds, so it runs the longest job first.",
        _arms(seconds=("both in seconds", _for("least_laxity_first", step_counts_as_s=0.001))),
        affects=("least_laxity_first",),
    ),
    "head_of_line_2560": Switch(
        "vllm_faithful closes admission at 2560 batched prompt tokens: one longer prompt blocks the queue for ever.",
        _arms(
            cap_131072=("the cap is the KV capacity", _vllm(max_num_batched_tokens=131_072)),
            no_cap=("no cap on batched prompt tokens", _vllm(max_num_batched_tokens=NO_LIMIT)),
            oversize_alone=("a longer prompt is admitted if nothing else was in its step", _vllm(oversize="alone")),
            oversize_skipped=("a longer prompt is passed over, for ever", _vllm(oversize="skipped")),
        ),
        affects=("vllm_faithful",),
    ),
    "scorpio_starvation": Switch(
        "scorpio_style_slo_guard never admits a request with negative laxity and never drops it.",
        _arms(
            last=("such requests come last, in queue order", _scorpio(hopeless="last")),
            last_by_laxity=("last, by laxity", _scorpio(hopeless="last_by_laxity")),
            last_by_service=("last, shortest estimated service first", _scorpio(hopeless="last_by_service")),
            last_without_credit=(
                "last, in queue order, without taking credit",
                _scorpio(hopeless="last", hopeless_take_credit=False),
            ),
            dropped=("such requests are turned away", _scorpio(hopeless="dropped")),
        ),
        affects=("scorpio_style_slo_guard",),
    ),
    "laxity_charges_prefill": Switch(
        "The service estimate charges half a step per prompt token, which the engine never spends.",
        _arms(alpha_0=("nothing per prompt token", _for(*ESTIMATING, steps_per_prompt_token=0.0))),
        affects=ESTIMATING,
    ),
    "admission_admits_all": Switch(
        "admission_control has its filter off and admits everything that fits.",
        _arms(
            threshold_0=(
                "requests of negative laxity are not admitted",
                _for("admission_control", min_laxity_s=0.0),
            ),
            threshold_minus_100ms=("below -0.1 s", _for("admission_control", min_laxity_s=-0.1)),
            threshold_minus_1s=("below -1 s", _for("admission_control", min_laxity_s=-1.0)),
        ),
        affects=("admission_control",),
    ),
    "shadow_prefill": Switch(
        "Three schedulers count prefill that the engine ignores, and so throttle admission to 512 a step.",
        _arms(
            modelled=(
                "the engine prefills what they count",
                {
                    "engine_changes": {name: {"prefill": "decode_protected"} for name in CHUNKED},
                    **_for(*CHUNKED, prefill_count="modelled"),
                },
            ),
            at_once=(
                "a prompt counts as prefilled when it is admitted",
                _for(*CHUNKED, prefill_count="at_once"),
            ),
        ),
        affects=CHUNKED,
    ),
    "slai_slo_inactive": Switch(
        "All requests are in the 0.5 s tier of slai_faithful, so its deadline logic may never act.",
        _arms(
            tier_100ms=("0.1 s between tokens for all", _slai(slackest_tier_s=0.1)),
            tier_300ms=("0.3 s between tokens for all", _slai(slackest_tier_s=0.3)),
            offset_50_steps=("decodes turn critical 50 steps ahead, not 5", _slai(offset_steps=50)),
            crowded_at_half=(
                "the larger offset holds from half the KV capacity on, not 0.96",
                _slai(crowded_kv_share=0.5),
            ),
        ),
        affects=("slai_faithful",),
        diagnostic="slai_decisions",
    ),
    "slai_blocks": Switch(
        "slai_faithful never takes KV blocks for the tokens that it makes.",
        _arms(grow=("blocks grow with every decode; the last are evicted", _slai(blocks_grow=True))),
        affects=("slai_faithful",),
    ),
    "kv_never_evicts": Switch(
        "KV is checked at admission only; occupancy can pass 100 % and nothing is evicted.",
        _arms(
            recompute=(
                "the last admitted goes back to the queue and starts again",
                {"engine": {"kv_full": "recompute"}},
            ),
            swap=("the last admitted waits outside and keeps its tokens", {"engine": {"kv_full": "swap"}}),
        ),
    ),
    "load_divides_slack": Switch(
        "The load factor divides the slack before deadlines as well as the gaps between arrivals.",
        _arms(
            gaps_only=("it divides the gaps alone", {"scaling": {"divides_slack": False}}),
            slack_only=("it divides the slack alone", {"scaling": {"divides_gaps": False}}),
        ),
    ),
    "slo_scale": Switch(
        "The slack assumes 20 ms per output token; the engine spends 1 ms, and nothing per prompt token.",
        _arms(
            engine_costs=(
                "20 times the engine's own cost of the request",
                {"synthesis": {"seconds_per_prompt_token": 0.0, "seconds_per_output_token": 0.001}},
            ),
            multiplier_10=("10 times the assumed cost", {"synthesis": {"slack_multiplier": 10}}),
            multiplier_40=("40 times the assumed cost", {"synthesis": {"slack_multiplier": 40}}),
        ),
    ),
    "predicted_deadline": Switch(
        "Deadlines come from the predicted output.",
        _arms(
            true_output=("deadlines come from the true output", {"synthesis": {"deadline_from_true_output": True}}),
            perfect_prediction=("the prediction is the true output", {"synthesis": {"noise_cv": 0.0}}),
            noise_cv_50=("prediction noise of cv 0.5, not 0.2", {"synthesis": {"noise_cv": 0.5}}),
        ),
    ),
    "prediction_cap": Switch(
        "Predicted output is capped at 4096 tokens, true output is not.",
        _arms(no_cap=("no cap", {"synthesis": {"max_predicted_tokens": NO_LIMIT}})),
    ),
    "shared_noise": Switch(
        "The prediction noise depends on the window number only, so sources share it.",
        _arms(
            per_source=("every source has noise of its own", {"synthesis": {"noise_per_source": True}}),
            second_draw=("another draw, still shared", {"synthesis": {"noise_draw": 1}}),
        ),
    ),
    "single_class": Switch(
        "All requests are of one class and weight; fairness, priorities and tiers never act.",
        _arms(
            three_classes=(
                "20 % critical (weight 4), 30 % standard (2), 50 % batch (1)",
                {"synthesis": {"classes": CLASSES}},
            )
        ),
    ),
    "knee_granularity": Switch(
        "The reference load is where one request of 200 is late, on one path of a rate that need not be monotone.",
        _arms(
            first_crossing=(
                "the lowest load of a fine grid that violates",
                {"calibration": {"method": "first_crossing"}},
            ),
            threshold_1_percent=("1 % late", {"calibration": {"threshold": 0.01}}),
            threshold_5_percent=("5 % late", {"calibration": {"threshold": 0.05}}),
        ),
    ),
    "fifo_calibration": Switch(
        "The load scale is defined by FIFO alone.",
        _arms(
            edf=("edf's violations count", {"calibration": {"scheduler": "edf"}}),
            shortest_first=(
                "those of estimated_service_time_first count",
                {"calibration": {"scheduler": "estimated_service_time_first"}},
            ),
            offered_load=("the load that just fills the slots", {"calibration": {"method": "offered_load"}}),
        ),
    ),
    "batch_tokens": Switch(
        "max_batch_tokens (4096) is compared with a number of sequences and never binds.",
        _arms(
            budget=(
                "decodes and prompt tokens of a step share 4096",
                _modelled(prefill_chunk=NO_LIMIT),
            )
        ),
    ),
    "duration_start": Switch(
        "The simulated duration ends at the start of the last step.",
        _arms(
            end_of_last_step=("it ends at the end of the last step", {"metrics": {"duration": "end_of_last_step"}}),
            last_completion=("it ends with the last completion", {"metrics": {"duration": "last_completion"}}),
        ),
    ),
    "drain_cutoff": Switch(
        "Runs that never empty end after 50,000 steps.",
        _arms(
            steps_5000=("after 5,000", {"engine": {"drain_steps": 5_000}}),
            steps_500000=("after 500,000", {"engine": {"drain_steps": 500_000}}),
        ),
        unfinished_only=True,
    ),
    "idle_jump_floor": Switch(
        "An idle replica may wake one step before the arrival.",
        _arms(exact=("it wakes in the step of the arrival", {"engine": {"exact_idle_jump": True}})),
    ),
    "whole_second_arrivals": Switch(
        "Arrivals of a trace in whole seconds stay simultaneous at any load.",
        _arms(spread=("they are spread evenly over their second", {"synthesis": {"spread_whole_seconds": True}})),
    ),
}

DIAGNOSTICS: dict[str, Diagnostic] = {
    "infeasible_deadlines": Diagnostic(
        "At high load factors some deadlines cannot be met even by immediate admission.", "attainable_goodput"
    ),
    "zero_completion_label": Diagnostic(
        "FIFO records without a violation are published as without a completion.", "fifo_records"
    ),
    "equal_policies": Diagnostic("Several schedulers behave alike.", "equal_schedulers"),
    "activation_counter": Diagnostic(
        "The admission counter counts every waiting request while a slot is free, whatever the reason.",
        "reasons_to_wait",
    ),
    "idle_telemetry": Diagnostic("Two telemetry fields are always 0, as prefill is free.", "contention_with_prefill"),
    "stage0_strata": Diagnostic(
        "Windows 00 to 09 are labelled EARLY although they span the file.", "strata_by_position"
    ),
    "window_independence": Diagnostic("Windows of one file are treated as independent.", "autocorrelation"),
}
