"""transformers' continuous batching on the CPU: right tokens, complete times, its scheduler, attention, faults."""

import numpy as np
import pytest

REASON = "NOT CHECKED on a real engine: torch and transformers are not installed; `make test-spotcheck` has them"
torch = pytest.importorskip("torch", reason=REASON)
transformers = pytest.importorskip("transformers", reason=REASON)

from virtual_clock import AMPLE, MODEL, jobs, on_engine  # noqa: E402

from servestudy.spotcheck.attention import attention_forward, packed_attention, self_test  # noqa: E402
from servestudy.spotcheck.backends.transformers_cb import TransformersEngine, build_model  # noqa: E402
from servestudy.spotcheck.policy import ARMS  # noqa: E402

TIGHT = 2_000


@pytest.fixture(scope="module")
def engine() -> TransformersEngine:
    torch.set_num_threads(1)
    return TransformersEngine(MODEL)


def test_tokens_are_those_of_generate_under_both_schedulers_also_after_evictions(engine):
    requests = jobs(90, 40)
    reference = build_model(MODEL, "cpu", torch.float32, "sdpa")
    generated, first = {}, None
    for job in requests[:12]:
        prompt = torch.tensor([job.prompt])
        out = reference.generate(prompt, max_new_tokens=job.output_tokens, do_sample=False, pad_token_id=0)
        generated[job.request_id] = out[0][len(job.prompt) :].tolist()
    for arm in ("fcfs", "slai"):
        for kv_tokens in (AMPLE, TIGHT):
            result = on_engine(engine, ARMS[arm], requests, kv_tokens)
            first = first or dict(engine.outputs)
            assert engine.outputs == first
            assert engine.outputs.items() >= generated.items()
            assert bool(result.evictions) == (kv_tokens == TIGHT)
            for job in requests:  # every token has its time, after evictions too
                token_s = result.token_s(job.request_id)
                assert len(token_s) == job.output_tokens
                assert (np.diff(token_s) > 0).all()
                assert token_s[0] > job.arrival_s


def test_the_published_client_has_at_most_32_requests_in_flight(engine):
    result = on_engine(engine, ARMS["fcfs_as_published"], jobs(400, 50), AMPLE)
    assert max(step.running + step.waiting for step in result.steps) == 32


def test_another_scheduler_than_ours_is_an_error_not_first_come_first_served(engine, monkeypatch):
    from servestudy.spotcheck.backends import transformers_cb

    monkeypatch.delitem(transformers_cb.SCHEDULER_MAPPING, transformers_cb.SCHEDULER, raising=False)
    monkeypatch.setattr(transformers_cb, "SCHEDULER_MAPPING", {})
    with pytest.raises(RuntimeError, match="schedules with FIFOScheduler instead of ours"):
        on_engine(engine, ARMS["slai"], jobs(90, 2), AMPLE)


def test_an_engine_that_fails_in_a_step_says_so_and_serves_the_next_replay(engine, monkeypatch):
    def fail(*_, **__):
        raise RuntimeError("CUDA out of memory")

    with monkeypatch.context() as broken:
        broken.setattr(engine.model, "forward", fail)
        with pytest.raises(RuntimeError, match="out of memory"):
            on_engine(engine, ARMS["fcfs"], jobs(90, 4), AMPLE)
    assert on_engine(engine, ARMS["fcfs"], jobs(90, 4), AMPLE).makespan_s > 0


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
