"""transformers' continuous batching on the CPU, stepped by hand: the simulator's schedule, right tokens, faults."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import pytest
from made_requests import made_requests

REASON = "NOT CHECKED on a real engine: torch and transformers are not installed; `make test-spotcheck` has them"
torch = pytest.importorskip("torch", reason=REASON)
transformers = pytest.importorskip("transformers", reason=REASON)

from servestudy.spotcheck.attention import attention_forward, packed_attention, self_test  # noqa: E402
from servestudy.spotcheck.backends.transformers_cb import TransformersEngine, build_model  # noqa: E402
from servestudy.spotcheck.clock import VirtualClock  # noqa: E402
from servestudy.spotcheck.policy import ARMS, Arm, Order, Slai, fcfs, slai  # noqa: E402
from servestudy.spotcheck.presets import PRESETS  # noqa: E402
from servestudy.spotcheck.replay import Job, Replay, replay  # noqa: E402
from servestudy.spotcheck.simulator import StepTime, simulate  # noqa: E402

STEP = StepTime(0.004, 30e-6)
TBT_S, AMPLE, TIGHT, N = 0.05, 32_000, 2_000, 40
SMALL = replace(PRESETS["tiny"], layers=1, hidden=32, mlp=64, vocabulary=256)


@pytest.fixture(scope="module")
def engine() -> TransformersEngine:
    torch.set_num_threads(1)
    return TransformersEngine(SMALL)


def jobs(rate_rps: float, tbt_s: float = TBT_S, n: int = N) -> list[Job]:
    return [
        Job(number, arrival_s, [3 + (7 * number + place) % 250 for place in range(prompt)], output, tbt_s)
        for number, (arrival_s, prompt, output) in enumerate(made_requests(rate_rps, n))
    ]


def on_engine(engine, arm: Arm, requests: list[Job], kv_tokens: int) -> Replay:
    return replay(engine, requests, arm, kv_tokens, VirtualClock(lambda tokens: STEP.iteration_s(tokens, 0, 0)))


def in_simulator(arm: Arm, requests: list[Job], kv_tokens: int):
    rows = [(job.arrival_s, len(job.prompt), job.output_tokens, job.tbt_s) for job in requests]
    return simulate(rows, arm, STEP, kv_tokens, SMALL.budget, SMALL.max_num_seqs)


def differences(result: Replay, outcome) -> list[int]:
    """Requests whose first or last token is made in another step."""
    steps = zip(outcome.completed_ids, outcome.first_token_step, outcome.completion_step, strict=True)
    return [i for i, first, last in steps if (result.token_steps[i][0], result.token_steps[i][-1]) != (first, last)]


@dataclass(frozen=True)
class Made(Arm):
    """An arm with a made policy."""

    policy: Callable[..., Order] = fcfs

    def decide(self, candidates, now_s, mean_step_s, kv_used):
        return self.policy(candidates, now_s, mean_step_s, kv_used)


@pytest.mark.parametrize("arm", ["fcfs", "slai", "slai_as_published"])
def test_with_ample_kv_engine_and_simulator_agree_step_for_step(engine, arm):
    requests = jobs(90, n=60)
    open_loop = replace(ARMS[arm], client_threads=None)
    result = on_engine(engine, open_loop, requests, AMPLE)
    outcome, holds = in_simulator(open_loop, requests, AMPLE)
    assert differences(result, outcome) == []
    assert len(result.steps) == outcome.last_step + 1
    assert result.makespan_s == pytest.approx(outcome.sim_duration_s, abs=1e-9)
    assert sum(step.held for step in result.steps) == holds
    assert (holds > 0) == (arm == "slai")
    assert not result.evictions


def longest_first(candidates, now_s, mean_step_s, kv_used) -> Order:
    """A broken policy: the longest waiting prompt goes first."""
    order = slai(candidates, now_s, mean_step_s, kv_used, Slai())
    return order._replace(new=order.new[::-1])


def test_a_broken_policy_is_noticed(engine):
    requests = jobs(90, n=60)
    result = on_engine(engine, Made("broken", policy=longest_first), requests, AMPLE)
    outcome, _ = in_simulator(ARMS["slai"], requests, AMPLE)
    assert len(differences(result, outcome)) > 20


@pytest.mark.parametrize("arm", ["fcfs", "slai"])
def test_with_little_kv_only_victims_differ(engine, state_fact, arm):
    requests = jobs(90)
    result = on_engine(engine, ARMS[arm], requests, TIGHT)
    outcome, _ = in_simulator(ARMS[arm], requests, TIGHT)
    assert result.evictions
    assert outcome.preemptions.sum() > 0
    latency_s = np.mean([result.token_s(job.request_id)[-1] - job.arrival_s for job in requests])
    arrival_s = np.array([job.arrival_s for job in requests])[outcome.completed_ids]
    ratio = float((outcome.completion_s - arrival_s).mean() / latency_s)
    steps = (outcome.last_step + 1) / len(result.steps)
    state_fact(
        f"little KV, {arm}: simulator over engine {steps:.3f} in steps, {ratio:.3f} in mean latency; evictions "
        f"{outcome.preemptions.sum()} and {sum(result.evictions.values())}"
    )
    assert steps == pytest.approx(1, abs=0.05)
    assert ratio == pytest.approx(1, abs=0.2)


def test_tokens_and_their_times_are_complete_and_those_of_generate_also_after_evictions(engine):
    requests = jobs(90)
    reference = build_model(SMALL, "cpu", torch.float32, "sdpa")
    on_engine(engine, ARMS["fcfs"], requests, AMPLE)
    expected = dict(engine.outputs)
    for job in sorted(requests, key=lambda job: job.output_tokens)[:10]:
        prompt = torch.tensor([job.prompt])
        out = reference.generate(prompt, max_new_tokens=job.output_tokens, do_sample=False, pad_token_id=0)
        assert expected[job.request_id] == out[0][len(job.prompt) :].tolist()
    result = on_engine(engine, ARMS["slai"], requests, TIGHT)
    assert engine.outputs == expected
    assert result.evictions
    for job in requests:  # every token has its time, after evictions too
        times = result.token_s(job.request_id)
        assert len(times) == job.output_tokens
        assert (np.diff(times) > 0).all()
        assert times[0] > job.arrival_s


def test_with_tbt_below_five_mean_steps_slai_is_the_shortest_prompt_first_on_the_engine(engine):
    def shortest_first(candidates, *_):
        order = fcfs(candidates)
        return order._replace(new=sorted(order.new, key=lambda c: (c.prompt_tokens, c.arrival_s, c.request_id)))

    requests = jobs(90, tbt_s=0.0199)
    result = on_engine(engine, ARMS["slai"], requests, AMPLE)
    other = on_engine(engine, Made("shortest", policy=shortest_first), requests, AMPLE)
    assert sum(step.held for step in result.steps) == 0
    assert [sorted(s) for s in result.token_steps.values()] == [sorted(s) for s in other.token_steps.values()]


def test_the_published_client_has_at_most_32_requests_in_flight(engine):
    result = on_engine(engine, ARMS["fcfs_as_published"], jobs(400, n=50), AMPLE)
    assert max(step.running + step.waiting for step in result.steps) == 32


def test_another_scheduler_than_ours_is_an_error_not_first_come_first_served(engine, monkeypatch):
    from servestudy.spotcheck.backends import transformers_cb

    monkeypatch.delitem(transformers_cb.SCHEDULER_MAPPING, transformers_cb.SCHEDULER, raising=False)
    monkeypatch.setattr(transformers_cb, "SCHEDULER_MAPPING", {})
    with pytest.raises(RuntimeError, match="schedules with FIFOScheduler instead of ours"):
        on_engine(engine, ARMS["slai"], jobs(90, n=2), AMPLE)


def test_an_engine_that_fails_in_a_step_says_so_and_serves_the_next_replay(engine, monkeypatch):
    def fail(*_, **__):
        raise RuntimeError("CUDA out of memory")

    with monkeypatch.context() as broken:
        broken.setattr(engine.model, "forward", fail)
        with pytest.raises(RuntimeError, match="out of memory"):
            on_engine(engine, ARMS["fcfs"], jobs(90, n=4), AMPLE)
    assert on_engine(engine, ARMS["fcfs"], jobs(90, n=4), AMPLE).makespan_s > 0


def test_attention_of_packed_sequences_passes_its_self_test():
    assert self_test("cpu", torch.float32) < 1e-5
    assert self_test("cpu", torch.bfloat16) < 3e-2


def test_the_self_test_notices_attention_that_is_causal_from_the_top_left(monkeypatch):
    from servestudy.spotcheck import attention

    def top_left(q, k, v, starts_q, starts_k, longest_q, longest_k, scale):
        keys = starts_k.clone()
        keys[1:] = starts_k[:-1] + torch.diff(starts_q)
        parts = [slice(int(a), int(a) + int(n)) for a, n in zip(starts_k[:-1], torch.diff(starts_q), strict=True)]
        k, v = (torch.cat([x[part] for part in parts]) for x in (k, v))
        return packed_attention(q, k, v, starts_q, starts_q, longest_q, longest_q, scale)

    monkeypatch.setattr(attention, "packed_attention", top_left)
    with pytest.raises(RuntimeError, match="is off by"):
        self_test("cpu", torch.float32)


def test_attention_outside_continuous_batching_is_refused():
    x = torch.zeros(1, 4, 3, 8)
    with pytest.raises(RuntimeError, match="in continuous batching only"):
        attention_forward(None, x, x, x)


def test_a_missing_gpu_is_one_line(tmp_path, capsys):
    from servestudy.cli import main

    if torch.cuda.is_available():
        pytest.skip("this machine has a GPU")
    windows = tmp_path / "windows.csv"
    windows.write_text(
        "source,window_id,window_number,arrival_s,prompt_tokens,output_tokens,slack_s\na,a_0,0,0,5,5,1\na,a_0,0,1,5,5,1\n"
    )
    options = ["--windows", str(windows), "--device", "cuda", "--preset", "7b", "--traces", "t", "--out", str(tmp_path)]
    assert main(["spotcheck-measure", *options]) == 1
    assert capsys.readouterr().err.count("\n") == 1
