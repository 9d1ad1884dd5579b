"""The embedded traces: same bytes, native formats, and descriptors within the bounds of embedded.yaml."""

import csv
import json
import re
import sys

import numpy as np
import pytest
from scipy import stats

from servestudy.errors import UserError
from servestudy.files import sha256_of
from servestudy.traces.reading import TraceFile
from servestudy.traces.registry import load_sources
from servestudy.traces.synthesize import (
    azure_lines,
    draw_requests,
    embedded_parameters,
    gathered_arrivals,
    steady_arrivals,
    synthesize,
)
from servestudy.windows.sampling import plan_windows

SOURCES = embedded_parameters()
# A change of these means that every result on the embedded traces changes.
SHA256 = {
    "azure_like": "9be858fb6015229595500793dfcf615ee2c86375303f07d41e1d98de4cbaccd5",
    "bailian_like": "d6df910bd86f299c96eb88d8f4e4dbc2203429256f4695fc82e12ed113347f18",
    "burstgpt_like": "a6e70e0707a9da51dabc4ce698d6c08a2435f9d7578e8030683cccf4ab8e6dab",
}
WHOLE_FILE_RATE_FACTOR = 1.3
SMALLEST_SPAN = 0.6
SMALLEST_SHARE_INSIDE = 0.5
LARGEST_KS_DISTANCE = 0.1
each_source = pytest.mark.parametrize("source_id", SOURCES)


@pytest.fixture(scope="module")
def quality(project):
    """The module that measures the embedded traces, from the tools folder."""
    sys.path.insert(0, str(project / "tools"))
    try:
        import embedded_trace_quality
    finally:
        sys.path.pop(0)
    return embedded_trace_quality


@pytest.fixture(scope="module")
def fit_tool(project, quality):
    sys.path.insert(0, str(project / "tools"))
    try:
        import fit_embedded_traces
    finally:
        sys.path.pop(0)
    return fit_embedded_traces


@pytest.fixture(scope="module")
def raw_files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("embedded")
    for source_id in SOURCES:
        synthesize(source_id, folder / source_id)
    return folder


def outside(measured: dict[str, float], bounds: dict) -> dict[str, float]:
    """What lies out of its bounds; every measured descriptor must have bounds."""
    return {name: value for name, value in measured.items() if not bounds[name][0] <= value <= bounds[name][1]}


@each_source
def test_same_bytes_every_time(source_id, raw_files, tmp_path):
    synthesize(source_id, tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == (raw_files / source_id).read_bytes()
    assert sha256_of(raw_files / source_id) == SHA256[source_id]
    assert [path.name for path in tmp_path.iterdir()] == ["again"]


def test_unknown_source_is_a_user_error_and_writes_nothing(tmp_path):
    with pytest.raises(UserError, match=r"'azure'.*azure_like, bailian_like, burstgpt_like"):
        synthesize("azure", tmp_path / "trace.csv")
    assert list(tmp_path.iterdir()) == []


@each_source
def test_reader_gets_back_what_was_drawn(source_id, raw_files, capsys):
    source = SOURCES[source_id]
    trace = TraceFile(raw_files / source_id, source["format"], max_bad_share=0.0)
    batches = list(trace)
    assert "warning" not in capsys.readouterr().err
    assert (trace.valid_rows, trace.zero_token_rows) == (source["rows"], 0)
    arrival_us, _, prompt_tokens, output_tokens = draw_requests(source)
    time_s = np.concatenate([batch.time_s for batch in batches])
    assert np.all(np.diff(time_s) >= 0)
    assert np.array_equal(np.rint((time_s - time_s[0]) * 1e6), arrival_us)
    assert np.array_equal(np.concatenate([batch.prompt_tokens for batch in batches]), prompt_tokens)
    assert np.array_equal(np.concatenate([batch.output_tokens for batch in batches]), output_tokens)


@each_source
def test_forty_windows_without_overlap(source_id, project):
    registered = load_sources(project / "config" / "sources.tsv")[source_id]
    rows = SOURCES[source_id]["rows"]
    starts = sorted(
        window.start_row for window in plan_windows(source_id, rows, registered.skip_rows, registered.sampling_seed)
    )
    assert len(starts) == 40
    assert starts[0] >= registered.skip_rows
    assert starts[-1] + 200 <= rows
    assert np.diff(starts).min() >= 200


def test_azure_file_has_the_shape_of_the_original(raw_files):
    header, *rows, end = (raw_files / "azure_like").read_bytes().decode("ascii").split("\r\n")
    assert header == "TIMESTAMP,ContextTokens,GeneratedTokens"
    assert end == ""
    assert len(rows) == 20_000
    row = re.compile(r"2024-05-12 \d\d:\d\d:\d\d(\.\d{6})?\+00:00,[1-9]\d*,[1-9]\d*")
    assert all(row.fullmatch(text) for text in rows)
    assert rows[0].startswith("2024-05-12 00:00:00+00:00,")


def test_azure_stamp_on_the_second_has_no_fraction():
    arrival_us = np.array([0, 1, 500_000, 61_000_000])
    stamps = [line.split(",")[0] for line in azure_lines(arrival_us, *np.ones((3, 4), dtype=int))][1:]
    assert stamps == [
        "2024-05-12 00:00:00+00:00",
        "2024-05-12 00:00:00.000001+00:00",
        "2024-05-12 00:00:00.500000+00:00",
        "2024-05-12 00:01:01+00:00",
    ]


def test_bailian_file_has_the_keys_and_the_clock_of_the_original(raw_files):
    lines = (raw_files / "bailian_like").read_text(encoding="ascii").splitlines()
    assert len(lines) == 20_000
    keys = ["chat_id", "parent_chat_id", "timestamp", "input_length", "output_length", "type", "turn", "hash_ids"]
    for line in lines:
        record = json.loads(line)
        assert list(record) == keys
        assert record["timestamp"] == round(record["timestamp"], 3)
    assert lines[0].startswith('{"chat_id": 0, "parent_chat_id": -1, "timestamp": 0.0, "input_length": ')


def test_burstgpt_file_has_whole_seconds_with_many_ties(raw_files):
    with (raw_files / "burstgpt_like").open(newline="") as file:
        header, *rows = csv.reader(file)
    names = ["Timestamp", "Model", "Request tokens", "Response tokens", "Total tokens", "Log Type"]
    assert header == names
    assert len(rows) == 20_000
    assert all(int(r[2]) + int(r[3]) == int(r[4]) for r in rows)
    assert {r[5] for r in rows} == {"API log", "Conversation log"}
    seconds = np.array([int(r[0]) for r in rows])
    assert seconds[0] == 5_270_414
    assert 0.3 < np.mean(np.diff(seconds) == 0) < 0.7
    assert np.bincount(seconds - seconds[0]).max() >= 10


@pytest.mark.filterwarnings("ignore:An input array is constant")
@each_source
def test_token_counts_are_within_bounds(source_id, quality):
    source = SOURCES[source_id]
    prompt_tokens, output_tokens = quality.embedded_tokens(source)
    bounds = source["bounds"]["tokens"]
    assert outside(quality.measure_tokens(prompt_tokens, output_tokens), bounds) == {}
    assert prompt_tokens.max() <= source["tokens_max"]["prompt"]
    assert output_tokens.max() <= source["tokens_max"]["output"]

    shuffled = np.random.default_rng(0).permutation(output_tokens)
    wrong = {
        "longer prompts": (prompt_tokens * 1.3, output_tokens),
        "shorter outputs": (prompt_tokens, output_tokens * 0.7),
        "prompts of one length": (np.full_like(prompt_tokens, np.median(prompt_tokens)), output_tokens),
    }
    if source_id != "burstgpt_like":  # its counts are independent
        wrong["independent counts"] = (prompt_tokens, shuffled)
    for what, tokens in wrong.items():
        assert outside(quality.measure_tokens(*tokens), bounds), what


@each_source
def test_gaps_are_within_bounds_at_the_rates_of_the_published_windows(source_id, quality):
    source = SOURCES[source_id]
    for bounds in source["bounds"]["gaps"]:
        arrival_s = quality.embedded_arrivals_at(source, bounds["rate_rps"])
        assert quality.rate_rps(arrival_s) == pytest.approx(bounds["rate_rps"], rel=0.03)
        assert outside(quality.measure_gaps(arrival_s), bounds) == {}


@pytest.mark.parametrize(
    ("source_id", "wrong_model"),
    [
        ("azure_like", {"model": "steady", "gap_shape": 1, "clock_us": 1}),
        ("bailian_like", {"model": "steady", "gap_shape": 3, "clock_us": 1000}),
        ("burstgpt_like", {"model": "steady", "gap_shape": 1, "clock_us": 1_000_000}),
        ("burstgpt_like", {"model": "steady", "gap_shape": 9, "clock_us": 1000}),
    ],
)
def test_the_bounds_reject_another_arrival_process(source_id, wrong_model, quality):
    source = SOURCES[source_id] | {"arrivals": wrong_model}
    bounds = SOURCES[source_id]["bounds"]["gaps"][0]
    assert outside(quality.measure_gaps(quality.embedded_arrivals_at(source, bounds["rate_rps"])), bounds)


def test_steady_arrivals_keep_their_rate_and_clock():
    regime = np.repeat([0, 1], 5000)
    model = {"gap_shape": 4, "clock_us": 1000}
    arrival_us = steady_arrivals(model, np.array([10.0, 40.0]), regime, np.random.default_rng(1))
    assert arrival_us[0] == 0
    assert np.all(arrival_us % 1000 == 0)
    gaps = np.diff(arrival_us)
    assert gaps[:4999].mean() == pytest.approx(100_000, rel=0.03)
    assert gaps[5000:].mean() == pytest.approx(25_000, rel=0.03)
    assert gaps[:4999].std() / gaps[:4999].mean() == pytest.approx(0.5, rel=0.05)


def test_gathered_arrivals_come_at_the_instants_of_the_cycle():
    model = {"cycle_us": 250_000, "instants": 4, "delay_us": {"median": 1, "log_sd": 0}}
    arrival_us = gathered_arrivals(model, np.array([25.0]), np.zeros(5000, dtype=int), np.random.default_rng(1))
    assert len(np.unique(arrival_us % 250_000)) == 4
    assert np.diff(arrival_us).mean() == pytest.approx(40_000, rel=0.03)


@each_source
def test_whole_file_has_the_published_rate(source_id, quality):
    arrival_s = draw_requests(SOURCES[source_id])[0] / 1e6
    published = SOURCES[source_id]["published_rate_rps"]
    assert published / WHOLE_FILE_RATE_FACTOR < quality.rate_rps(arrival_s) < published * WHOLE_FILE_RATE_FACTOR


@each_source
def test_windows_vary_as_the_published_windows_do(source_id, quality):
    windows = quality.embedded_windows(source_id)
    assert len(windows) == 40
    for name, published in SOURCES[source_id]["published_windows"].items():
        spanned, inside = quality.coverage(windows[name], published)
        assert spanned >= SMALLEST_SPAN, name
        assert inside >= SMALLEST_SHARE_INSIDE, name


def test_some_burstgpt_windows_hold_templates_only_and_some_mostly_long_jobs(quality):
    output_mean = quality.embedded_windows("burstgpt_like")["output_tokens_mean"]
    assert np.mean(output_mean < 7.05) >= 0.1
    assert np.mean(output_mean > 100) >= 0.1


@each_source
def test_every_parameter_has_an_origin(source_id):
    origin = SOURCES[source_id]["origin"]
    assert "Chosen, not fitted:" in origin
    assert re.search(r"CC-BY-4\.0|Apache-2\.0", origin)


@each_source
def test_distance_from_the_published_windows(source_id, quality, shared):
    windows = quality.read_windows(shared / "goldens" / "windows", source_id)
    assert len(windows) == 2
    for data, embedded in zip(quality.pooled_tokens(windows), quality.embedded_tokens(SOURCES[source_id]), strict=True):
        assert stats.ks_2samp(data, embedded, method="asymp").statistic < LARGEST_KS_DISTANCE


def test_the_fit_gives_the_parameters_in_the_package(fit_tool, shared):
    burstgpt = shared / "traces" / "burstgpt" / "BurstGPT_1_first1000.csv"
    fitted = fit_tool.fit(shared / "goldens" / "windows", burstgpt)
    for source_id, parameters in fitted.items():
        source = SOURCES[source_id]
        flat = source | source["regimes"]
        assert set(parameters) <= set(flat)
        for name, value in parameters.items():
            assert_close(value, flat[name], f"{source_id}.{name}")


def assert_close(fitted, stated, where: str) -> None:
    """Equal to 1 %, as optimisers differ in last digits between versions of their libraries."""
    if isinstance(fitted, dict):
        assert set(fitted) == set(stated), where
        for key in fitted:
            assert_close(fitted[key], stated[key], f"{where}.{key}")
    elif isinstance(fitted, list):
        assert len(fitted) == len(stated), where
        for i, item in enumerate(fitted):
            assert_close(item, stated[i], f"{where}[{i}]")
    elif isinstance(fitted, str):
        assert fitted == stated, where
    else:
        assert fitted == pytest.approx(stated, rel=0.01, abs=1e-4), where


def test_the_page_shows_the_report(quality, shared, project):
    page = (project / "docs" / "EMBEDDED_TRACES.md").read_text(encoding="utf-8")
    assert quality.report(shared / "goldens" / "windows") in page
