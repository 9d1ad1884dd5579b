"""Measuring without a real engine: what is written when, what is resumed, refused, repeated; analyses and figures."""

import json
import math
import shutil
import time
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from made_engine import RECORD, SMALL, MadeEngine

from servestudy.cli import main
from servestudy.errors import UserError
from servestudy.spotcheck import measure as measuring
from servestudy.spotcheck.analyse import SCHEMAS, analyse, write_csvs
from servestudy.spotcheck.calibrate import sustained
from servestudy.spotcheck.clock import ProcessorClock, RealClock
from servestudy.spotcheck.effects import agreement, effects, paired
from servestudy.spotcheck.episode import Episode, read_episodes
from servestudy.spotcheck.measurements import KEY, collect, read_measurements
from servestudy.spotcheck.plan import pairs
from servestudy.spotcheck.registry import ANALYSES, FIGURES, draw_figure, read_provenance
from servestudy.spotcheck.replay import Job, Replay, Step
from servestudy.tables import read_table


def episode(source="azure_made", number=0, n=24) -> Episode:
    draws = np.random.default_rng(number + len(source))
    return Episode(
        source,
        f"{source}_w{number:02d}",
        number,
        np.cumsum(draws.exponential(0.1, n)),
        draws.integers(5, 80, n),
        draws.integers(2, 12, n),
        np.full(n, 20.0),
    )


@pytest.fixture
def measure(tmp_path, monkeypatch):
    """Measure episodes with a made engine into one folder; calibration as if the engine were quick and steady."""
    monkeypatch.setattr(measuring, "LATE_S", 0.5)  # the machine that tests run on is not quiet

    def run(engine=None, episodes=None, limit_s=1e9, record=RECORD, preset=SMALL):
        engine = engine or MadeEngine()
        measuring.measure(episodes or [episode()], preset, engine, record, tmp_path / "out", limit_s, 1)
        return engine

    return run


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The folder of a measurement of one window that came to its end."""
    folder = tmp_path_factory.mktemp("whole") / "out"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(measuring, "LATE_S", 5.0)
        measuring.measure([episode()], SMALL, MadeEngine(), RECORD, folder, 1e9, 1)
    return folder


@pytest.fixture
def done(whole, tmp_path):
    """A copy of it where `measure` measures."""
    return shutil.copytree(whole, tmp_path / "out")


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    """The tables of a measurement of a window of two sources each, whose rates are bracketed."""
    folder = tmp_path_factory.mktemp("measured")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(measuring, "LATE_S", 5.0)
        episodes = [episode(source) for source in ("azure_made", "burstgpt_made")]
        measuring.measure(episodes, SMALL, MadeEngine(), RECORD, folder / "out", 1e9, 1)
    for path in (folder / "out/calibration").glob("*.json"):
        path.write_text(json.dumps(json.loads(path.read_text()) | {"bracketed": True}))
    collect(folder / "out", folder / "data")
    return folder / "data"


def test_the_plan_keeps_both_arms_together_and_alternates_their_order():
    planned = list(pairs([episode("a"), episode("b"), episode("a", 1)]))
    assert all({cell.arm.split("_")[0] for cell in cells} == {"fcfs", "slai"} for _, cells in planned)
    first = [cells[0].arm.split("_")[0] for _, cells in planned]
    assert first == ["fcfs", "slai"] * (len(first) // 2) + ["fcfs"] * (len(first) % 2)
    order = [(cells[0].source, cells[0].window_number, cells[0].variant, cells[0].load) for _, cells in planned]
    assert order[:4] == [("a", 0, "main", 1.05), ("b", 0, "main", 1.05), ("a", 0, "main", 0.9), ("b", 0, "main", 0.9)]
    assert order[4:7] == [("a", 0, "as_published", 1.05), ("b", 0, "as_published", 1.05), ("a", 0, "tight_kv", 0.9)]
    assert order[7:] == [("a", 1, "main", 1.05), ("a", 1, "main", 0.9), *((s, n, "main", 0.7) for s, n in
                         (("a", 0), ("b", 0), ("a", 1)))]  # fmt: skip


def test_every_cell_is_written_as_it_ends_and_a_killed_run_goes_on_where_it_was(measure, tmp_path, monkeypatch):
    written = measuring._write_json

    def killed_at_third_cell(path, content):
        written(path, content)
        if len(list((tmp_path / "out/cells").glob("*"))) == 3:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(measuring, "_write_json", killed_at_third_cell)
        with pytest.raises(KeyboardInterrupt):
            measure()
    kept = {path: path.read_bytes() for path in (tmp_path / "out/cells").glob("*.json")}
    assert len(kept) == 3
    engine = measure()
    assert all(path.read_bytes() == content for path, content in kept.items())
    assert len(list((tmp_path / "out/cells").glob("*.json"))) == 2 * len(list(pairs([episode()])))
    assert engine.begun == 1 + 2 * len(list(pairs([episode()]))) - 3  # the warm-up; no calibration again


def test_what_is_measured_is_not_measured_again(measure, done):
    assert measure().begun == 1


def test_other_requests_under_the_same_name_are_measured(measure, done):
    other = replace(episode(), output_tokens=episode().output_tokens + 1)
    assert measure(episodes=[other]).begun > 10
    stored = {json.loads(path.read_text())["episode_sha256"] for path in done.glob("*/*.json")}
    assert stored == {other.shortened(SMALL.tokens_per_request, SMALL.requests).sha256}


def test_no_pair_begins_that_does_not_fit_into_the_time_left(measure, tmp_path, capsys):
    measure(limit_s=1e-9)
    assert not list((tmp_path / "out").glob("cells/*"))
    assert "the same command goes on from here" in capsys.readouterr().err


def test_an_engine_that_runs_out_of_memory_costs_one_cell_and_says_so_in_one_line(measure, done, tmp_path, capsys):
    (broken,) = (tmp_path / "out/cells").glob("*main.0.9.slai.0.json")
    broken.unlink()
    capsys.readouterr()
    measure(MadeEngine(fail_at=2))
    content = json.loads(broken.read_text())
    assert not content["valid"]
    assert content["why"].startswith("MemoryError: CUDA out of memory.")
    (line,) = [line for line in capsys.readouterr().err.splitlines() if "INVALID" in line]
    assert "main.0.9.slai.0: INVALID: MemoryError: CUDA out of memory." in line
    measure()
    assert json.loads(broken.read_text())["valid"]


def test_a_window_whose_calibration_fails_is_left_out_and_the_others_are_measured(measure, tmp_path, capsys):
    measure(MadeEngine(fail_at=3), [episode("a"), episode("b")])
    assert "left out, calibration failed: MemoryError" in capsys.readouterr().err
    assert {path.name.split(".")[0] for path in (tmp_path / "out/cells").glob("*")} >= {"b"}


def test_a_disturbed_cell_is_repeated(measure, done, tmp_path, monkeypatch):
    (cell,) = (tmp_path / "out/cells").glob("*main.0.9.fcfs.0.json")
    cell.unlink()
    measure(MadeEngine(slow_at=2))
    content = json.loads(cell.read_text())
    assert (content["valid"], content["attempt"]) == (True, 2)
    monkeypatch.setattr(measuring, "TRIES", 1)
    cell.unlink()
    measure(MadeEngine(slow_at=2))
    assert "disturbed: a step took 0." in json.loads(cell.read_text())["why"]
    collect(done, tmp_path / "data")
    data = read_measurements(tmp_path / "data")
    assert (~data.cells["valid"]).sum() == 1
    assert len(data.steps.groupby(list(KEY))) == data.cells["valid"].sum()


def test_measurements_of_another_engine_are_not_mixed(measure, done, tmp_path):
    other = RECORD | {"fingerprint": "0" * 16, "device": {"kind": "cuda", "name": "another"}}
    with pytest.raises(UserError, match=r"are of another device; give another --out"):
        measure(record=other)


def test_a_request_that_never_fits_is_refused_before_it_blocks_the_queue(measure):
    preset = replace(SMALL, tight_kv_tokens=160)
    with pytest.raises(UserError, match=r"azure_made_w00: a request has \d+ tokens, more than the 160 of KV"):
        measure(episodes=[replace(episode(), prompt_tokens=np.array([900] + [5] * 23))], preset=preset)


def test_a_request_with_too_few_tokens_is_an_error():
    class Short(MadeEngine):
        def submit(self, job):
            super().submit(job._replace(output_tokens=job.output_tokens - 1))

    from servestudy.spotcheck.policy import ARMS

    with pytest.raises(RuntimeError, match="request 0 made 3 tokens instead of 4"):
        measuring.replay(Short(), [Job(0, 0.0, [3] * 5, 4, 0.1)], ARMS["fcfs"], 800, RealClock())


def test_the_processor_clock_passes_over_waits_and_counts_no_sleep():
    clock = ProcessorClock()
    clock.start()
    clock.wait_until(5.0)
    time.sleep(0.2)
    assert 5.0 <= clock.now_s() < 5.1
    while clock.now_s() < 5.1:
        sum(range(1000))
    clock.wait_until(1.0)
    assert clock.now_s() < 5.2


def test_a_queue_that_grows_is_not_sustained():
    def result(waiting: list[int]) -> tuple[Replay, list[Job]]:
        steps = [Step(1, 1, 0, 0, 1, n, 0, 0, (), ()) for n in waiting]
        times = [float(number) for number in range(len(waiting))]
        jobs = [Job(number, 9.0 * number / 7, [3], 1, 0.1) for number in range(8)]
        return Replay(times, [t + 1 for t in times], steps, {job.request_id: [len(waiting) - 1] for job in jobs}), jobs

    assert not sustained(*result([0, 0, 1, 2, 3, 4, 5, 6, 7, 8]))
    assert sustained(*result([0, 2, 3, 3, 3, 3, 2, 2, 2, 2]))


def test_lengths_are_divided_only_where_a_window_is_too_long_and_keep_one_token():
    short = episode().shortened(1000, 10)
    assert (len(short), short.length_scale) == (10, 1.0)
    scaled = episode().shortened(10, 24)
    assert np.mean(scaled.prompt_tokens + scaled.output_tokens) == pytest.approx(10, rel=0.15)
    assert scaled.output_tokens.min() == 1


def test_prompts_are_the_same_in_every_replay_and_times_scale_by_one_factor():
    one, other = episode().jobs(5.0, 256), episode().jobs(10.0, 256)
    assert [job.prompt for job in one] == [job.prompt for job in other]
    assert [job.arrival_s for job in one] == pytest.approx([2 * job.arrival_s for job in other])
    assert other[-1].arrival_s == pytest.approx(23 / 10)


def test_a_window_without_a_rate_is_refused():
    with pytest.raises(UserError, match="all requests arrive at one time"):
        replace(episode(), arrival_s=np.zeros(24)).jobs(1.0, 256)


def test_windows_are_written_and_read_again(tmp_path, embedded_windows):
    from servestudy.spotcheck.episode import write_episodes
    from servestudy.windows.frozen import WINDOW_SCHEMA

    window = embedded_windows["azure_like"][0]
    table = pd.DataFrame(
        {
            "source": "azure_like",
            "window_id": window.window_id,
            "window_number": np.int32(0),
            "position": np.arange(200, dtype=np.int32),
            "source_row": np.arange(200),
            "time_s": window.time_s,
            "prompt_tokens": window.prompt_tokens.astype(np.int32),
            "output_tokens": window.output_tokens.astype(np.int32),
        }
    )
    from servestudy.tables import write_frame

    write_frame(table, WINDOW_SCHEMA, tmp_path / "windows.parquet")
    write_episodes([tmp_path / "windows.parquet"], 3, tmp_path / "windows.csv")
    (found,) = read_episodes(tmp_path / "windows.csv")
    assert found.prompt_tokens.tolist() == window.prompt_tokens.tolist()
    assert np.diff(found.arrival_s) == pytest.approx(np.diff(window.time_s), abs=1e-9)
    assert (found.slack_s > 0).all()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no rows or no column"),
        ("source,window_id\na,b\n", "no column window_number"),
        (
            "source,window_id,window_number,arrival_s,prompt_tokens,output_tokens,slack_s\na,b,0,x,1,1,1\n",
            "is no number",
        ),
    ],
)
def test_a_broken_windows_file_is_named(tmp_path, text, message):
    (tmp_path / "w.csv").write_text(text)
    with pytest.raises(UserError, match=f"w.csv: .*{message}"):
        read_episodes(tmp_path / "w.csv")


def test_a_missing_package_is_one_line_with_the_way_out(tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "torch", None)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    windows = tmp_path / "w.csv"
    windows.write_text(
        "source,window_id,window_number,arrival_s,prompt_tokens,output_tokens,slack_s\na,a_0,0,0,5,5,1\na,a_0,0,1,5,5,1\n"
    )
    options = [
        "--windows",
        str(windows),
        "--device",
        "cpu",
        "--preset",
        "tiny",
        "--traces",
        "t",
        "--out",
        str(tmp_path),
    ]
    assert main(["spotcheck-measure", *options]) == 1
    error = capsys.readouterr().err
    assert "needs the package torch: `make spotcheck` installs it" in error
    assert error.count("\n") == 1


def test_a_measurement_without_a_valid_cell_is_no_table(tmp_path):
    with pytest.raises(UserError, match="no valid cell"):
        collect(tmp_path, tmp_path / "data")


def test_a_broken_cell_file_is_named(measure, done, tmp_path):
    next((tmp_path / "out/cells").glob("*")).write_text("{")
    with pytest.raises(UserError, match=r"\.json: not a JSON file; delete it and measure again"):
        collect(tmp_path / "out", tmp_path / "data")


@pytest.fixture(scope="module")
def analyses(measured, tmp_path_factory):
    """The folder of its analyses."""
    folder = tmp_path_factory.mktemp("analyses")
    analyse(measured, [], folder)
    return folder


def test_all_analyses_figures_and_tables_of_a_measurement(measured, analyses, tmp_path):
    for name, schema in SCHEMAS.items():
        assert read_table(analyses / f"{name}.parquet", schema).num_rows > 0
    origin = read_provenance(measured, committed=True)
    write_csvs(analyses, origin, tmp_path / "csv")
    table = pd.read_csv(tmp_path / "csv/effects.csv")
    assert set(table["measured"]) == {origin.text}
    assert "committed measurement: a made engine, a made device" in origin.text
    for name, figure in FIGURES.items():
        files = {table: analyses / f"{table}.parquet" for table in figure.reads}
        draw_figure(name, files, origin, [tmp_path / f"{name}.svg"])
        assert "committed measurement" in (tmp_path / f"{name}.svg").read_text()
    assert {path.stem for path in (tmp_path / "csv").iterdir()} == set(ANALYSES)


def test_analyses_of_the_same_measurement_have_the_same_bytes(measured, analyses, tmp_path):
    analyse(measured, [], tmp_path)
    for path in analyses.iterdir():
        assert path.read_bytes() == (tmp_path / path.name).read_bytes()


def test_stored_steps_and_tokens_give_back_the_replay(measured):
    data = read_measurements(measured)
    cells = data.cells[data.cells["valid"]]
    assert len(cells)
    tokens = data.requests["token_steps"].map(len)
    assert (tokens == data.requests["output_tokens"]).all()
    first = data.requests["token_steps"].map(lambda steps: steps[0])
    assert (first >= 0).all()
    prefilled = data.requests.groupby(["source", "window_number", "variant", "load", "arm"])["prompt_tokens"].sum()
    computed = data.steps.groupby(["source", "window_number", "variant", "load", "arm"])["tokens"].sum()
    decodes = (
        data.requests.assign(d=tokens - 1).groupby(["source", "window_number", "variant", "load", "arm"])["d"].sum()
    )
    assert (computed == prefilled + decodes).all()


def values(slai: list[float], fcfs: list[float], bracketed=True) -> pd.DataFrame:
    from servestudy.spotcheck.effects import METRICS

    rows = [
        {"source": "azure_made", "window_number": number, "variant": "main", "load": 1.05, "arm": arm, "repetition": 0}
        | dict.fromkeys(METRICS, value)
        | {"bracketed": bracketed, "held_decodes": 5, "decodes": 10}
        for arm, of_arm in (("slai", slai), ("fcfs", fcfs))
        for number, value in enumerate(of_arm)
    ]
    return pd.DataFrame(rows)


def test_an_effect_is_paired_by_window_and_a_smaller_time_wins():
    table = effects(values([0.9, 0.8, 0.95], [0.5, 0.6, 0.55])).set_index(["windows", "metric"]).loc["bracketed"]
    assert table.loc["anwg", "effect"] == pytest.approx(1 / 3)
    assert (table.loc["anwg", "winner"], table.loc["ttft_p50_s", "winner"]) == ("slai", "fcfs")
    assert table.loc["anwg", "low"] == pytest.approx(0.2)
    assert table.loc["anwg", "p"] == pytest.approx(0.001)
    assert table.loc["anwg", "held_share"] == 0.5


def test_windows_without_a_bracketed_rate_count_among_all_windows_only():
    table = effects(values([0.9, 0.8], [0.5, 0.6], bracketed=False)).set_index(["windows", "metric"])
    assert table["n_windows"][("bracketed", "anwg")] == 0
    assert table["winner"][("bracketed", "anwg")] == "undecided"
    assert table["n_windows"][("all", "anwg")] == 2


def test_one_window_decides_nothing_and_an_interval_about_zero_neither():
    assert math.isnan(paired(np.array([1.0]), np.array([0.0]), "anwg")["low"])
    assert paired(np.array([1.0]), np.array([0.0]), "anwg")["winner"] == "undecided"
    assert paired(np.array([0.4, 0.6, 0.5]), np.array([0.5, 0.5, 0.5]), "anwg")["winner"] == "undecided"


def test_agreement_names_what_is_unknown_and_has_the_study_beside_ours():
    table = agreement(effects(values([0.9, 0.8, 0.95], [0.5, 0.6, 0.55])), {})
    table = table[table["windows"] == "bracketed"].set_index("simulator")
    assert table.loc["published", "agreement"] == "simulator unknown"
    assert table.loc["study", "agreement"] == "disagrees"
    assert table.loc["study", "engine_effect"] == -0.0235


def test_the_committed_measurement_is_whole_and_names_no_machine(project):
    for folder in (project / "data/spotcheck").iterdir():
        data = read_measurements(folder)
        assert data.cells["valid"].any()
        text = json.dumps(data.provenance)
        assert "/" not in "".join(data.provenance["options"])
        assert not any(word in text for word in ("/home", "/root", "/tmp", "/usr", "hostname"))
        assert data.provenance["attention_self_test_error"] < 3e-2
        why = " ".join(data.cells["why"])
        assert "/" not in why
