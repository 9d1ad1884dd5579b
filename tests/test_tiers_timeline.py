"""The recorded timeline of a cluster run agrees with the outcome of the same run."""

import json
from dataclasses import replace
from itertools import groupby, pairwise

import pandas as pd
import pytest

from servestudy.cli import main
from servestudy.errors import UserError
from servestudy.tables import read_table
from servestudy.tiers.load import requests_per_s
from servestudy.tiers.outcome import simulate
from servestudy.tiers.settings import SERVING
from servestudy.tiers.study import preset_of
from servestudy.tiers.timeline import STATES, TIMELINE_SCHEMA, moves, preemptions, record, trace_events
from servestudy.tiers.workload import draw

RULES = replace(SERVING, total_blocks=64)


@pytest.fixture(scope="module")
def spans():
    return record("ours", 4, 150, 1, "0.9", 64)


@pytest.fixture(scope="module")
def outcome():
    workload = preset_of("serving").workload
    workload = replace(workload, requests=150, requests_per_s=requests_per_s("0.9", workload, RULES))
    return simulate("ours", draw(workload, "uniform", 4, 1, RULES.streams), 4, RULES)[0]


def test_spans_of_a_request_follow_one_another_from_arrival_to_completion(spans, outcome):
    by_request = {number: list(group) for number, group in groupby(spans, key=lambda span: span.request_id)}
    assert len(by_request) == len(outcome.arrival_s) == 150
    for number, of_request in by_request.items():
        assert of_request[0].start_s == pytest.approx(outcome.arrival_s[number], abs=1e-12)
        assert of_request[-1].end_s == outcome.completion_s[number]
        assert all(one.end_s == two.start_s for one, two in pairwise(of_request))
        assert {span.tier for span in of_request} == {outcome.tier[number]}
    assert {span.state for span in spans} == set(STATES)
    assert {span.replica for span in spans} == {0, 1, 2, 3}


def test_first_tokens_come_when_the_first_decode_begins(spans, outcome):
    first = {}
    for span in spans:
        if span.state == "decode":
            first.setdefault(span.request_id, span.start_s)
    assert {number: outcome.first_token_s[number] for number in first} == pytest.approx(first, abs=1e-12)


def test_moves_and_preemptions_are_those_of_the_outcome(spans, outcome):
    assert len(moves(spans)) == outcome.migrations.sum() > 0
    assert len(preemptions(spans)) == outcome.restarts.sum() > 0


def test_no_replica_runs_more_than_its_slots(spans):
    edges = sorted(
        edge
        for span in spans
        if span.state in ("prefill", "decode")
        for edge in ((span.end_s, 0, -1, span.replica), (span.start_s, 1, 1, span.replica))
    )
    running = [0] * 4
    for _, _, change, replica in edges:
        running[replica] += change
        assert 0 <= running[replica] <= RULES.max_num_seqs


def test_the_trace_has_a_process_a_replica_and_an_arrow_a_move(spans):
    events = trace_events(spans, "ours")
    assert json.loads(json.dumps(events)) == events
    names = [event["args"]["name"] for event in events if event["name"] == "process_name"]
    assert names == [f"ours, replica {number}" for number in range(4)]
    starts = {event["id"] for event in events if event["ph"] == "s"}
    assert starts == {event["id"] for event in events if event["ph"] == "f"} == set(range(len(moves(spans))))
    assert all(event["dur"] >= 0 for event in events if event["ph"] == "X")
    assert sum(event["name"] == "preempt" for event in events) == len(preemptions(spans))


def test_a_system_without_moves_has_none():
    assert moves(record("infaas_vllm", 2, 60, 1, "0.9")) == []


def test_the_command_writes_table_trace_and_figure_twice_the_same(tmp_path):
    for name in ("a", "b"):
        files = ["--trace", str(tmp_path / f"{name}.json"), "--out", str(tmp_path / f"{name}.parquet")]
        assert main(["tiers-timeline", "--kv-blocks", "64", "--requests", "60", *files]) == 0
        drawn = ["--title", "made", "--model", "serving", "--out", str(tmp_path / f"{name}.svg")]
        tables = ["--tables", f"serving_tier_timeline={tmp_path / name}.parquet"]
        assert main(["figure", "timeline", *tables, *drawn]) == 0
    for suffix in ("json", "parquet", "svg"):
        assert (tmp_path / f"a.{suffix}").read_bytes() == (tmp_path / f"b.{suffix}").read_bytes()
    frame = read_table(tmp_path / "a.parquet", TIMELINE_SCHEMA).to_pandas()
    assert set(frame["system"]) == {"ours"}
    assert pd.api.types.is_float_dtype(frame["end_s"])
    text = (tmp_path / "a.svg").read_text(encoding="utf-8")
    assert not [label for label in ("replica 0", "replica 3", "preempt", "wait", "move") if label not in text]


def test_the_studys_own_engine_has_no_timeline():
    with pytest.raises(UserError, match="serving engine only"):
        record("ours", 2, 10, 1, "burst", settings=["engine=study"])
