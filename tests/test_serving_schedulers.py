"""What each serving scheduler decides in small cases that are worked out by hand, played by the literal oracle."""

from dataclasses import replace

import pytest
from oracle.serving_engine import simulate

from servestudy.schedulers.protocol import ReplicaLimits, Request
from servestudy.schedulers.serving.admission_control import AdmissionControl
from servestudy.schedulers.serving.edf import Edf
from servestudy.schedulers.serving.estimated_service_time_first import EstimatedServiceTimeFirst
from servestudy.schedulers.serving.fcfs import Fcfs
from servestudy.schedulers.serving.kv_constrained_online import KvConstrainedOnline
from servestudy.schedulers.serving.least_attained_service import LeastAttainedService
from servestudy.schedulers.serving.least_laxity_first import LeastLaxityFirst
from servestudy.schedulers.serving.multi_level_feedback import MultiLevelFeedback
from servestudy.schedulers.serving.sarathi_faithful import SarathiFaithful
from servestudy.schedulers.serving.scorpio_style_slo_guard import ScorpioStyleSloGuard
from servestudy.schedulers.serving.shortest_remaining_first import ShortestRemainingFirst
from servestudy.schedulers.serving.slai_faithful import SlaiFaithful
from servestudy.schedulers.serving.vllm_chunked_prefill_faithful import VllmChunkedPrefillFaithful
from servestudy.schedulers.serving.vllm_faithful import VllmFaithful
from servestudy.schedulers.serving.vllm_style_token_budget import VllmStyleTokenBudget
from servestudy.schedulers.serving.weighted_fair_share import WeightedFairShare

ONE_SLOT = ReplicaLimits(
    max_num_seqs=1, max_num_batched_tokens=100, max_kv_tokens=16_000, block_tokens=16, watermark_tokens=0
)
ROOMY = replace(ONE_SLOT, max_num_seqs=8)
TICK_S = 0.01


def request(request_id, arrival_s=0.0, prompt=10, predicted=5, deadline_s=1000.0, weight=1.0, class_id="a", **targets):
    return Request(request_id, arrival_s, prompt, predicted, deadline_s, weight, class_id, **targets)


def play(scheduler, requests, outputs=None, limits=ONE_SLOT, iteration_s=TICK_S):
    """The oracle's result; every iteration lasts `iteration_s`. Outputs are as predicted unless given."""
    outputs = outputs or [r.predicted_output_tokens for r in requests]
    result = simulate(requests, outputs, scheduler, limits, lambda *_: iteration_s)
    assert not result.ignored
    return result


def admission_order(result):
    return sorted(result.admission, key=lambda request_id: result.admission[request_id])


# Three requests that come together, after one that occupies the only slot.
BUSY = request(0, deadline_s=0.0, predicted=1, prompt=1, weight=1.0)
TRIO = [
    BUSY,
    request(1, 0.001, prompt=400, predicted=10, deadline_s=90.0),
    request(2, 0.002, prompt=20, predicted=100, deadline_s=60.0),
    request(3, 0.003, prompt=300, predicted=90, deadline_s=61.0),
]


@pytest.mark.parametrize(
    ("scheduler", "order"),
    [
        (Fcfs(), [0, 1, 2, 3]),
        (VllmFaithful(), [0, 1, 2, 3]),
        (VllmChunkedPrefillFaithful(), [0, 1, 2, 3]),
        (SarathiFaithful(), [0, 1, 2, 3]),
        (Edf(), [0, 2, 3, 1]),
        # Service at 0.1 s a prompt token and 0.5 s an output token: 45, 52 and 75 s; latest start at 45, 8 and -14 s.
        (EstimatedServiceTimeFirst(prompt_token_s=0.1, output_token_s=0.5), [0, 1, 2, 3]),
        (LeastLaxityFirst(prompt_token_s=0.1, output_token_s=0.5), [0, 3, 2, 1]),
        # At 0.1 s and 0.001 s: 40.01, 2.1 and 30.09 s.
        (EstimatedServiceTimeFirst(prompt_token_s=0.1, output_token_s=0.001), [0, 2, 3, 1]),
        (VllmStyleTokenBudget(), [0, 1, 3, 2]),
        (KvConstrainedOnline(), [0, 2, 3, 1]),  # footprints 410, 120 and 390 tokens
        (SlaiFaithful(), [0, 2, 3, 1]),  # shortest prompt first
        (ShortestRemainingFirst(prompt_token_s=0.1, output_token_s=0.001), [0, 2, 3, 1]),
        (LeastAttainedService(), [0, 1, 2, 3]),
    ],
    ids=lambda value: type(value).__name__ if not isinstance(value, list) else "",
)
def test_order_of_admission(scheduler, order):
    result = play(scheduler, TRIO)
    assert admission_order(result) == order
    assert len(result.completion) == len(TRIO)


def test_laxity_is_in_seconds():
    """The published order subtracts steps from seconds, and so puts the longest first. Here seconds decide."""
    requests = [BUSY, request(1, 0.001, predicted=500, deadline_s=20.0), request(2, 0.001, predicted=5, deadline_s=9.0)]
    assert admission_order(play(LeastLaxityFirst(), requests)) == [0, 2, 1]


def test_a_long_prompt_runs_alone_and_blocks_nobody_for_ever_in_vllm():
    requests = [request(0, prompt=60), request(1, prompt=250), request(2, prompt=70), request(3, prompt=30)]
    result = play(VllmFaithful(), requests, limits=ROOMY)
    assert [prefills for _, prefills in result.batches[:3]] == [{0: 60}, {1: 250}, {2: 70, 3: 30}]
    assert len(result.completion) == 4


def test_vllm_prefills_first_and_decodes_wait():
    requests = [request(0, predicted=20), request(1, TICK_S * 3.5, prompt=80)]
    batches = play(VllmFaithful(), requests, limits=ROOMY).batches
    assert batches[4] == ([], {1: 80})
    assert batches[5] == ([0, 1], {})


@pytest.mark.parametrize("scheduler", [Fcfs(), VllmChunkedPrefillFaithful()], ids=["fifo", "vllm_chunked"])
def test_chunked_prefill_goes_on_beside_decodes(scheduler):
    requests = [request(0, predicted=20), request(1, TICK_S * 3.5, prompt=150)]
    batches = play(scheduler, requests, limits=ROOMY).batches
    assert batches[4:6] == [([0], {1: 99}), ([0], {1: 51})]


def test_sarathi_keeps_its_own_budget():
    requests = [request(0, predicted=20), request(1, TICK_S * 3.5, prompt=70), request(2, TICK_S * 3.5, prompt=9)]
    batches = play(SarathiFaithful(token_budget=32), requests, limits=ROOMY).batches
    assert batches[4:7] == [([0], {1: 31}), ([0], {1: 31}), ([0], {1: 8, 2: 9})]


def test_the_last_to_arrive_is_the_victim_in_vllm():
    """0 comes back after a preemption, so it is the last admitted, but not the last that arrived."""
    running = [request(1, 1.0), request(2, 2.0), request(0, 0.0)]
    assert VllmFaithful().victim(running) == VllmChunkedPrefillFaithful().victim(running) == 2
    assert SarathiFaithful().victim(running) == SlaiFaithful().victim(running) == 2
    assert Fcfs().victim(running) == 0


def test_whole_prompts_share_the_budget_in_the_token_budget_proxy():
    """60 and 30 fit into 100 tokens; 50 has to wait until they are done, 250 until it has the budget for itself."""
    requests = [request(i, prompt=p, predicted=i + 2) for i, p in enumerate([60, 30, 50, 250])]
    result = play(VllmStyleTokenBudget(), requests, limits=ROOMY)
    prefills = [p for _, p in result.batches if p]
    assert prefills[:2] == [{0: 60, 1: 30}, {2: 50}]
    assert [sum(p.values()) for p in prefills[2:]] == [98, 99, 53]


# ---- rejection -------------------------------------------------------------------------------------------------------


def test_admission_control_rejects_at_the_moment_when_laxity_is_used_up():
    """1 needs 1 s (50 tokens at 20 ms) and has 1.5 s: hopeless from 0.5 s on. The slot is busy until 1 s."""
    requests = [
        request(0, predicted=100),
        request(1, 0.1, predicted=50, deadline_s=1.5),
        request(2, 0.2, predicted=50, deadline_s=9.0),
    ]
    result = play(AdmissionControl(prompt_token_s=0.0), requests)
    assert result.rejected == [1]
    assert list(result.completion) == [0, 2]
    with_time = play(
        AdmissionControl(prompt_token_s=0.0), [requests[0]._replace(predicted_output_tokens=30), *requests[1:]]
    )
    assert with_time.rejected == []


def test_admission_control_rejects_on_arrival_what_is_infeasible():
    result = play(AdmissionControl(), [request(0, deadline_s=0.05, predicted=50)])
    assert result.rejected == [0]
    assert not result.completion


def test_admission_control_never_rejects_after_the_first_token():
    """Two requests grow until the KV of 5 blocks is full; the preempted one is past its deadline and completes."""
    limits = replace(ROOMY, max_kv_tokens=80)
    requests = [request(i, prompt=16, predicted=40, deadline_s=0.9) for i in range(2)]
    result = play(AdmissionControl(prompt_token_s=0.0), requests, limits=limits, iteration_s=0.03)
    assert result.preemptions == 1
    assert result.rejected == []
    assert sorted(result.completion) == [0, 1]


def test_the_ttft_guard_rejects_and_orders_by_first_token_deadline():
    requests = [
        request(0, predicted=100),
        request(1, 0.1, ttft_deadline_s=5.0),
        request(2, 0.1, ttft_deadline_s=2.0),
        request(3, 0.1, ttft_deadline_s=0.9),
    ]
    result = play(ScorpioStyleSloGuard(prompt_token_s=0.0), requests)
    assert result.rejected == [3]
    assert admission_order(result) == [0, 2, 1]


def test_the_tbt_guard_defers_until_credit_comes_back():
    """At 10 ms a request and 10 ms besides, a target of 50 ms leaves room for four; twice the target counts half."""
    guard = ScorpioStyleSloGuard(iteration_s=0.0101, iteration_s_per_request=0.0099)
    strict = [request(i, predicted=20, tbt_target_s=0.05) for i in range(6)]
    result = play(guard, strict, limits=ROOMY)
    assert [step for step, _ in result.admission.values()] == [0, 0, 0, 0, 20, 20]
    relaxed = [r._replace(tbt_target_s=0.1) for r in strict[1:]]
    result = play(guard, [strict[0], *relaxed], limits=ROOMY)
    assert [step for step, _ in result.admission.values()] == [0] * 6
    assert result.rejected == []


# ---- KV --------------------------------------------------------------------------------------------------------------


def test_predicted_footprints_stay_under_the_target():
    """Footprints of 400 of 1,008 tokens: two fit under the target of 900. By free blocks, all would start."""
    limits = replace(ROOMY, max_kv_tokens=1008)
    requests = [request(i, prompt=40, predicted=360) for i in range(5)]
    result = play(KvConstrainedOnline(kv_target=0.9), requests, limits=limits)
    assert [step for step, _ in result.admission.values()] == [0, 0, 360, 360, 720]
    assert result.preemptions == 0


def test_an_urgent_request_may_exceed_the_target():
    limits = replace(ROOMY, max_kv_tokens=1008)
    requests = [request(i, prompt=100, predicted=300, deadline_s=1000.0) for i in range(2)]
    urgent = request(2, 0.05, prompt=100, predicted=300, deadline_s=9.0)
    # It needs 6.01 s: its latest start is at 2.99 s.
    result = play(KvConstrainedOnline(prompt_token_s=1e-4, urgent_laxity_s=1.0), [*requests, urgent], limits=limits)
    assert result.admission[2][1] == pytest.approx(1.99)


# ---- fairness and feedback -------------------------------------------------------------------------------------------


def backlogged(weights, n=60):
    """Two classes that have requests waiting all the time: small ones of the first, then larger ones of the second."""
    return [
        request(i, 0.0001 * i, prompt=20, predicted=5 if i < n else 20, weight=weights[c], class_id=c)
        for i, c in enumerate(["a"] * n + ["b"] * n)
    ]


def service(result, requests, until_iteration):
    """Weighted service of each class: prompt tokens, and twice the output tokens, of what ran up to an iteration."""
    served = dict.fromkeys({r.class_id for r in requests}, 0.0)
    made = dict.fromkeys(range(len(requests)), 0)
    prefilled = dict.fromkeys(range(len(requests)), 0)
    for decodes, prefills in result.batches[:until_iteration]:
        for i in decodes:
            made[i] += 1
        for i, tokens in prefills.items():
            prefilled[i] += tokens
            made[i] += prefilled[i] == requests[i].prompt_tokens
    for r in requests:
        served[r.class_id] += (prefilled[r.request_id] + 2 * made[r.request_id]) / r.weight
    return served


@pytest.mark.parametrize("weights", [{"a": 1.0, "b": 1.0}, {"a": 1.0, "b": 4.0}])
def test_two_backlogged_classes_get_equal_weighted_service(weights):
    """VTC bounds the difference by what the running batch can hold; first come first served does not."""
    requests = backlogged(weights)
    limits = replace(ROOMY, max_num_seqs=4)
    fair = play(WeightedFairShare(), requests, limits=limits)
    unfair = play(Fcfs(), requests, limits=limits)
    bound = 2 * limits.max_num_seqs * (20 + 2 * 20)
    for iteration in (20, 40, 60, 80):
        a, b = service(fair, requests, iteration).values()
        assert abs(a - b) <= bound
        assert min(a, b) > 0
    a, b = service(unfair, requests, 80).values()
    assert abs(a - b) > bound


def test_a_class_that_idled_earns_no_credit():
    """Class b comes late. Without the lift it would be served alone until it had caught up with class a."""
    requests = [request(i, prompt=20, predicted=5, class_id="a") for i in range(40)]
    requests += [request(40 + i, 0.9, prompt=20, predicted=5, class_id="b") for i in range(20)]
    result = play(WeightedFairShare(), requests)
    after = [i for i in admission_order(result) if result.admission[i][1] > 0.9][:12]
    assert 5 <= sum(i >= 40 for i in after) <= 7


@pytest.mark.parametrize("scheduler", [WeightedFairShare(), KvConstrainedOnline()], ids=["fair_share", "kv"])
def test_a_weight_that_is_not_positive_counts_as_one(scheduler):
    alike = [play(scheduler, [r._replace(weight=w) for r in TRIO]).completion for w in (0.0, -2.0, 1.0)]
    assert alike[0] == alike[1] == alike[2]


def test_least_attained_service_preempts_after_a_quantum_and_not_before():
    requests = [request(0, predicted=50), request(1, 0.05, predicted=3)]
    result = play(LeastAttainedService(quantum_tokens=8), requests)
    assert result.admission[1][0] == 8
    assert result.preemptions == 1
    assert list(result.completion) == [1, 0]


def test_shortest_remaining_takes_the_place_of_a_much_longer_one_only():
    long = request(0, predicted=100)
    for predicted, preemptions in [(10, 1), (60, 0)]:
        result = play(ShortestRemainingFirst(), [long, request(1, 0.05, predicted=predicted)])
        assert result.preemptions == preemptions


def test_a_request_that_outlives_its_prediction_is_not_preempted_by_shortest_remaining_first():
    result = play(ShortestRemainingFirst(), [request(0, predicted=2), request(1, 0.2, predicted=1)], outputs=[60, 1])
    assert result.preemptions == 0


def test_feedback_demotes_after_the_quantum():
    """0 leaves level 0 with 4 tokens; the arrivals at level 0 take its place then, not before."""
    scheduler = MultiLevelFeedback(first_quantum_tokens=4, prompt_tokens_per_output_token=10)
    result = play(scheduler, [request(0, predicted=30), request(1, 0.015, predicted=2), request(2, 0.017, predicted=2)])
    assert result.admission[1][0] == 4
    assert list(result.completion) == [1, 2, 0]


def test_feedback_skips_levels_for_long_prompts():
    """A prompt worth 8 output tokens joins the level with a quantum of 8, behind a later one at level 0."""
    scheduler = MultiLevelFeedback(first_quantum_tokens=4, prompt_tokens_per_output_token=10)
    requests = [request(0, predicted=3), request(1, 0.001, prompt=80, predicted=3), request(2, 0.002, predicted=3)]
    assert admission_order(play(scheduler, requests)) == [0, 2, 1]


def test_feedback_promotes_the_starved():
    """A stream at level 0 keeps the slot busy. 1, at level 1, waits for it to end, unless promotion comes first."""
    stream = [request(i, 0.03 * (i - 2) if i else 0.0, predicted=4) for i in range(2, 40)]
    starved = request(1, 0.001, prompt=80, predicted=4)
    requests = [request(0, predicted=4), starved, *stream[1:]]

    def waited_s(starvation_s):
        scheduler = MultiLevelFeedback(
            first_quantum_tokens=5, prompt_tokens_per_output_token=10, starvation_s=starvation_s
        )
        return play(scheduler, requests).admission[1][1]

    assert waited_s(1000.0) > 1.2
    assert 0.3 <= waited_s(0.3) < 0.5


# ---- holds -----------------------------------------------------------------------------------------------------------


def test_slai_holds_decodes_until_their_token_deadline_is_near():
    """The prompt of 1 takes the whole budget. 0 is held, but served 30 ms after its last token, and beside the rest."""
    requests = [request(0, predicted=20, tbt_target_s=0.05), request(1, 0.035, prompt=200, predicted=2)]
    result = play(SlaiFaithful(token_budget=32, offset_s=0.02, crowded_offset_s=0.02), requests, limits=ROOMY)
    assert [decodes for decodes, _ in result.batches[4:12]] == [[], [], [], [0], [], [], [0], [0, 1]]
    assert [sum(p.values()) for _, p in result.batches[4:11]] == [32, 32, 32, 31, 32, 32, 9]
    assert result.holds == 5


def test_slai_holds_a_loose_target_longer_than_a_tight_one():
    requests = [
        request(0, predicted=200, tbt_target_s=0.05),
        request(1, predicted=200, tbt_target_s=0.15),
        request(2, 0.025, prompt=1600, predicted=2),
    ]
    result = play(SlaiFaithful(token_budget=32, offset_s=0.02, crowded_offset_s=0.02), requests, limits=ROOMY)
    prefill_time = [decodes for decodes, prefills in result.batches if 2 in prefills]
    tokens = {i: sum(i in decodes for decodes in prefill_time) for i in (0, 1)}
    assert tokens[0] == pytest.approx(len(prefill_time) / 4, abs=1)  # served when 30 ms have gone by
    assert tokens[1] == pytest.approx(len(prefill_time) / 14, abs=1)


def test_slai_spends_what_is_left_on_whole_groups_only():
    """The last chunk of 3, 30 of 32 tokens, leaves 2: not enough for the three decodes, which wait for one more."""
    requests = [request(i, predicted=20, tbt_target_s=1.0) for i in range(3)] + [request(3, 0.035, prompt=94)]
    result = play(SlaiFaithful(token_budget=32, offset_s=0.02, crowded_offset_s=0.02), requests, limits=ROOMY)
    assert [decodes for decodes, _ in result.batches[3:8]] == [[0, 1, 2], [], [], [], [0, 1, 2, 3]]
    assert [sum(p.values()) for _, p in result.batches[4:7]] == [32, 32, 30]


def test_slai_serves_every_decode_earlier_when_kv_is_nearly_full():
    requests = [request(0, predicted=60, tbt_target_s=0.1), request(1, 0.035, prompt=500, predicted=2)]

    def holds(crowded_kv_share):
        scheduler = SlaiFaithful(
            token_budget=32, offset_s=0.02, crowded_offset_s=0.09, crowded_kv_share=crowded_kv_share
        )
        return play(scheduler, requests, limits=replace(ROOMY, max_kv_tokens=640)).holds

    assert holds(0.5) < holds(1.0)


# ---- nobody starves where the rule promises it -----------------------------------------------------------------------

PATIENT = {
    "fifo": Fcfs,
    "edf": Edf,
    "least_laxity_first": LeastLaxityFirst,
    "vllm_faithful": VllmFaithful,
    "vllm_chunked_prefill_faithful": VllmChunkedPrefillFaithful,
    "sarathi_faithful": SarathiFaithful,
    "weighted_fair_share": WeightedFairShare,
    "kv_constrained_online": KvConstrainedOnline,
    "multi_level_feedback": lambda: MultiLevelFeedback(first_quantum_tokens=4, starvation_s=0.5),
}


@pytest.mark.parametrize("name", PATIENT)
def test_a_big_request_does_not_starve(name):
    """A steady stream of small ones, with later deadlines, keeps the replica busy; the big one needs half of all KV."""
    limits = replace(ROOMY, max_kv_tokens=960)
    big = request(0, 0.001, prompt=480, predicted=40, deadline_s=3.0)
    stream = [
        request(i, 0.012 * i, prompt=48, predicted=8, deadline_s=5.0 + 0.012 * i, class_id="b") for i in range(1, 300)
    ]
    result = play(PATIENT[name](), [big, *stream], limits=limits)
    assert result.completion[0][1] < stream[-1].arrival_s
    assert len(result.completion) == 300
