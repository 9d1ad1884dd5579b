"""Timelines agree with the outcome of the run that they tell of; trace and picture are written."""

import json
from collections import defaultdict
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from made_runs import first_requests, write_run

from servestudy.cli import main
from servestudy.engine.replica_config import replica_limits
from servestudy.published_model import PUBLISHED_MODEL
from servestudy.schedulers.protocol import Action, Scheduler
from servestudy.schedulers.registry import schedulers_of
from servestudy.serving_model import load_serving_model
from servestudy.timeline import record
from servestudy.timeline_trace import trace_events
from servestudy.windows.frozen import FrozenWindow

RNG = np.random.default_rng(3)
WINDOW = FrozenWindow(
    "made", "made_0000", 0, np.cumsum(RNG.exponential(0.02, 50)), RNG.integers(20, 3_000, 50), RNG.integers(1, 100, 50)
)
SERVING = load_serving_model()
SMALL = replace(SERVING.replica, limits=replica_limits(250, 32))
MODELS = {
    "published": PUBLISHED_MODEL,
    "serving": SERVING,
    "recompute": replace(SERVING, replica=SMALL),
    "swap": replace(SERVING, replica=replace(SMALL, preemption="swap")),
}


def both(model, scheduler, load_factor=1.5):
    scaled = model.scaled(model.workload(WINDOW), load_factor)
    return record(model, scaled, scheduler()), model.run(scaled, scheduler()), scaled


def spans_of(timeline):
    spans = defaultdict(list)
    for span in timeline.spans:
        spans[span.request_id].append(span)
    return spans


CASES = [(key, name) for key, model in MODELS.items() for name in schedulers_of(model.name)]


@pytest.mark.parametrize(("key", "name"), CASES)
def test_spans_agree_with_the_outcome(key, name):
    model = MODELS[key]
    timeline, outcome, scaled = both(model, lambda: model.scheduler(name))
    completed = dict(zip(outcome.completed_ids.tolist(), outcome.completion_s.tolist(), strict=True))
    assert {i for i, end in timeline.end.items() if end == "completed"} == completed.keys()
    assert {i for i, end in timeline.end.items() if end == "rejected"} == set(outcome.rejected_ids)
    assert len(timeline.preemptions) == outcome.telemetry.preemption_or_reorder_events
    preempted = {request_id for _, request_id in timeline.preemptions}
    for request_id, spans in spans_of(timeline).items():
        assert spans[0].start_s == scaled.arrival_s[request_id]
        assert all(a.end_s == b.start_s and a.state != b.state for a, b in pairwise(spans))
        assert all(span.end_s > span.start_s for span in spans)
        if request_id in completed:
            # The recorder makes the engine step, which may round the last digit otherwise.
            assert spans[-1].end_s == pytest.approx(completed[request_id], rel=1e-12)
            assert spans[-1].state in ("prefill", "decode")
            if request_id not in preempted:
                tokens = {state: sum(s.tokens for s in spans if s.state == state) for state in ("prefill", "decode")}
                is_free = key == "published"
                assert tokens["prefill"] == (0 if is_free else scaled.prompt_tokens[request_id])
                assert tokens["decode"] == scaled.output_tokens[request_id] - (not is_free)


@pytest.mark.parametrize("key", ["recompute", "swap"])
def test_the_small_cache_makes_preemptions(key):
    assert both(MODELS[key], lambda: MODELS[key].scheduler("fifo"))[0].preemptions


@pytest.mark.parametrize("key", ["serving", "recompute"])
def test_the_first_token_comes_with_the_end_of_the_prefill(key):
    timeline, outcome, _ = both(MODELS[key], lambda: MODELS[key].scheduler("fifo"))
    first_token_s = dict(zip(outcome.completed_ids.tolist(), outcome.first_token_s.tolist(), strict=True))
    preempted = {request_id for _, request_id in timeline.preemptions}
    for request_id, spans in spans_of(timeline).items():
        if request_id not in preempted:
            prefills = [span for span in spans if span.state == "prefill"]
            assert prefills[-1].end_s == pytest.approx(first_token_s[request_id], rel=1e-12)


class HoldsTheFirst(Scheduler):
    """Holds request 0 while any other runs, and rejects request 5."""

    def decide(self, view):
        waiting = [request.request_id for request in view.queue]
        ids = {request.request_id for request in view.running}.union(waiting)
        hold = frozenset([0]) if 0 in ids and len(ids) > 1 else frozenset()
        room = view.limits.max_num_seqs - view.running_count
        return Action([i for i in waiting if i != 5][:room], hold=hold, reject=[i for i in waiting if i == 5])


@pytest.mark.parametrize("key", ["published", "serving"])
def test_held_and_rejected_requests_are_shown(key):
    timeline, _, _ = both(MODELS[key], HoldsTheFirst)
    spans = spans_of(timeline)
    assert "hold" in {span.state for span in spans[0]}
    assert timeline.end[5] == "rejected"
    assert {span.state for span in spans[5]} <= {"wait"}
    instants = [event["name"] for event in trace_events(timeline, "made") if event["ph"] == "i"]
    assert instants == ["reject"]


class NeverAdmits(Scheduler):
    def decide(self, view):
        return Action(valid_steps=10_000)


@pytest.mark.parametrize("key", ["published", "serving"])
def test_unfinished_requests_wait_to_the_end(key):
    timeline, _, _ = both(MODELS[key], NeverAdmits)
    assert set(timeline.end.values()) == {"unfinished"}
    assert {span.state for span in timeline.spans} == {"wait"}


@pytest.fixture(scope="module")
def folder(embedded_windows, tmp_path_factory):
    folder = tmp_path_factory.mktemp("project")
    windows = {"azure_like": [first_requests(window, 30) for window in embedded_windows["azure_like"][:2]]}
    write_run(folder / "results/small", windows, [PUBLISHED_MODEL, SERVING])
    return folder


OPTIONS = ["--run", "small", "--source", "azure_like", "--region", "KNEE"]


@pytest.mark.parametrize("model", ["published", "serving"])
def test_the_command_writes_trace_and_picture(folder, tmp_path, monkeypatch, model):
    monkeypatch.chdir(folder)
    out, svg = tmp_path / "timeline.json", tmp_path / "timeline.svg"
    options = ["--window", "1", "--scheduler", "fifo", "--model", model, "--out", str(out), "--svg", str(svg)]
    assert main(["timeline", *OPTIONS, *options]) == 0
    written = out.read_bytes()
    assert main(["timeline", *OPTIONS, *options[:-2]]) == 0
    assert out.read_bytes() == written
    events = json.loads(written)["traceEvents"]
    names = {event["args"]["name"] for event in events if event["name"] == "thread_name"}
    assert names == {f"request {i}" for i in range(30)}
    assert {event["ph"] for event in events} == {"M", "X", "C"}
    assert all(event["dur"] > 0 and event["ts"] >= 0 for event in events if event["ph"] == "X")
    assert b"azure_like / azure_like_stage0_w01 / KNEE / fifo" in svg.read_bytes()


def test_the_command_takes_an_own_scheduler(folder, tmp_path, monkeypatch):
    monkeypatch.chdir(folder)
    file = tmp_path / "own.py"
    file.write_text(
        "from servestudy.schedulers.published.fifo import Fifo\nclass Own(Fifo):\n    def decide(self, view):\n"
        "        return super().decide(view)\n"
    )
    out = tmp_path / "own.json"
    assert main(["timeline", *OPTIONS, "--window", "0", "--scheduler", f"{file}:Own", "--out", str(out)]) == 0
    assert json.loads(out.read_text())["traceEvents"][0]["args"]["name"].endswith("/ KNEE / Own, published model")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--window", "9", "--scheduler", "fifo"], "window '9' is unknown; known are azure_like_stage0_w00"),
        (["--window", "0", "--scheduler", "fif"], "scheduler 'fif' is unknown"),
        (["--window", "0", "--scheduler", "fifo", "--svg", "a.jpg"], "must end in .svg, .pdf, .png"),
    ],
)
def test_mistakes_are_named(folder, tmp_path, monkeypatch, capsys, options, message):
    monkeypatch.chdir(folder)
    assert main(["timeline", *OPTIONS, *options, "--out", str(tmp_path / "t.json")]) == 1
    assert message in capsys.readouterr().err
    assert not list(tmp_path.iterdir())
