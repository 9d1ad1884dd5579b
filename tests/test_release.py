"""The release of a small run: complete, described, hashed, the same twice, and careful with what is not ours."""

import csv
import dataclasses
import hashlib
import json
import random
import subprocess
from importlib.util import find_spec
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml
from made_runs import first_requests, write_cells, write_run
from project_copy import copy_of, planned

from servestudy.cli import main
from servestudy.errors import UserError
from servestudy.published_model import PUBLISHED_MODEL
from servestudy.release.build import Run, write_release
from servestudy.release.contents import MEASURED, place_of
from servestudy.release.passing_on import may_be_passed_on
from servestudy.release.tables import put_together, unit_of, write_released
from servestudy.spotcheck.registry import ANALYSES, MEASURED_TABLES
from servestudy.statistics.registry import run_analysis
from servestudy.tables import column
from servestudy.traces.registry import load_sources
from servestudy.traces.synthesize import synthesize
from servestudy.windows.freeze import freeze, merge_indexes

SOURCES = ("azure_like", "bailian_like")
SCHEDULERS = ["edf", "fifo"]
CONFIG = {"run": "made", "title": "embedded traces (synthetic), made", "sources": list(SOURCES), "seeds": [1, 2]}


@pytest.fixture(scope="module")
def registry(project):
    return load_sources(project / "config/sources.tsv")


@pytest.fixture(scope="module")
def made(project, registry, embedded_windows, tmp_path_factory) -> tuple[Run, list[Path]]:
    """A run with something of each kind, and its files."""
    folder = tmp_path_factory.mktemp("made")
    run = Run(
        folder / "results",
        folder / "figures",
        folder / "tables",
        project / "data/spotcheck/cpu",
        folder / "manifest.json",
        CONFIG,
        " --configfile config/made.yaml",
    )
    windows = {source: [first_requests(each, 20) for each in embedded_windows[source][:2]] for source in SOURCES}
    write_run(run.folder, windows, [PUBLISHED_MODEL])
    write_cells(run.folder, windows, PUBLISHED_MODEL, SCHEDULERS)
    cells = sorted(run.folder.glob("cells/*/*/*.parquet"))
    run_analysis("ranking", cells, SCHEDULERS, None, None, run.folder / "statistics/published/ranking.parquet")
    for source in SOURCES:
        synthesize(source, folder / source)
        index = folder / f"{source}.csv"
        freeze(registry[source], folder / source, folder / f"{source}.parquet", index, 2, 0, 0.001)
    merge_indexes([folder / f"{source}.csv" for source in SOURCES], run.folder / "windows/index.csv")
    for path in (
        run.figures / "portability/tau_heatmap.svg",
        run.tables / "portability/tau_by_region.csv",
        run.folder / "claims.csv",
        run.folder / "tiers/claims.csv",
        run.manifest,
    ):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{path.name}\n", encoding="utf-8")
    places = (run.folder, run.figures, run.tables, run.measurements)
    return run, [path for place in places for path in sorted(place.rglob("*")) if path.is_file()]


@pytest.fixture(scope="module")
def released(made, registry, project, tmp_path_factory) -> Path:
    run, files = made
    out = tmp_path_factory.mktemp("released") / "release"
    write_release(run, files, registry, project, out)
    return out


def contents(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def tables(folder: Path) -> dict[str, pa.Table]:
    return {path.stem: pq.read_table(path) for path in sorted((folder / "data").glob("*.parquet"))}


def test_it_holds_every_kind_of_file(released):
    assert {
        "README.md",
        "CITATION.cff",
        "LICENSE",
        "traces.csv",
        "config.yaml",
        "manifest.json",
        "data/windows.parquet",
        "data/window_index.parquet",
        "data/calibration.parquet",
        "data/cells.parquet",
        "data/statistics_ranking.parquet",
        "data/spotcheck_measured_cells.parquet",
        "data/spotcheck_measured_requests.parquet",
        "spotcheck/provenance.json",
        "figures/portability/tau_heatmap.svg",
        "tables/portability/tau_by_region.csv",
        "claims/portability.csv",
        "claims/tiers.csv",
    } <= contents(released).keys()
    assert yaml.safe_load((released / "config.yaml").read_text()) == CONFIG


def test_every_file_is_hashed(released):
    lines = (released / "SHA256SUMS").read_text().splitlines()
    stated = {path: digest for digest, path in (line.split("  ") for line in lines)}
    found = contents(released)
    assert stated.keys() == found.keys() - {"SHA256SUMS"}
    assert stated == {path: hashlib.sha256(found[path]).hexdigest() for path in stated}
    subprocess.run(["sha256sum", "--check", "--quiet", "SHA256SUMS"], cwd=released, check=True)


def test_metadata_list_every_file_with_its_hash(released):
    found = contents(released)
    croissant = json.loads(found["croissant.json"])
    crate = {entity["@id"]: entity for entity in json.loads(found["ro-crate-metadata.json"])["@graph"]}
    listed = {file["@id"]: file["sha256"] for file in croissant["distribution"]}
    parts = {part["@id"]: crate[part["@id"]]["sha256"] for part in crate["./"]["hasPart"]}
    assert listed.keys() == found.keys() - {"croissant.json", "ro-crate-metadata.json", "SHA256SUMS"}
    assert parts.keys() == found.keys() - {"ro-crate-metadata.json", "SHA256SUMS"}
    for stated in (listed, parts):
        assert stated == {path: hashlib.sha256(found[path]).hexdigest() for path in stated}
    assert all(file["description"] for file in croissant["distribution"])


def test_every_column_is_described_in_order(released):
    with (released / "data_dictionary.csv").open(newline="", encoding="utf-8") as file:
        described = list(csv.DictReader(file))
    expected = [(name, each) for name, table in tables(released).items() for each in table.column_names]
    assert [(row["table"], row["column"]) for row in described] == expected
    assert all(row["meaning"] for row in described)
    croissant = json.loads((released / "croissant.json").read_text())
    fields = [(each["name"], field["name"]) for each in croissant["recordSet"] for field in each["field"]]
    assert fields == expected


def test_a_table_has_the_rows_of_all_its_parts_in_order(made, released):
    run, _ = made
    parts = [pq.read_table(path) for path in run.folder.glob("cells/*/*/*.parquet")]
    keys = ["model", "source", "window_id", "window_number", "region", "scheduler", "repetition"]
    expected = pa.concat_tables(parts).sort_by([(key, "ascending") for key in keys])
    found = tables(released)["cells"]
    assert len(parts) == len(SOURCES) * len(SCHEDULERS)
    assert found.equals(expected)
    assert found.schema.equals(expected.schema, check_metadata=True)
    assert pq.read_metadata(released / "data/cells.parquet").row_group(0).column(0).compression == "ZSTD"


def test_what_only_a_path_tells_becomes_a_column(made, released):
    ranking = tables(released)["statistics_ranking"]
    assert ranking.column_names[0] == "model"
    assert ranking["model"].unique().to_pylist() == ["published"]
    assert (
        ranking.drop_columns("model").num_rows
        == pq.read_metadata(made[0].folder / "statistics/published/ranking.parquet").num_rows
    )


def test_the_same_files_in_another_order_give_the_same_bytes(made, registry, project, released, tmp_path):
    run, files = made
    shuffled = random.Random(1).sample(files, len(files))
    write_release(run, shuffled, registry, project, tmp_path / "release")
    assert contents(tmp_path / "release") == contents(released)


def test_the_readme_says_how_to_do_it_again(released):
    text = (released / "README.md").read_text()
    assert ".venv/bin/snakemake --cores all --configfile config/made.yaml" in text
    assert "results/made/manifest.json" in text
    assert "No request of" not in text


def test_it_is_no_part_of_a_run_but_a_target_of_its_own(project, tmp_path):
    folder = copy_of(project, tmp_path / "project")
    assert "write_release" not in planned(folder, "--configfile", "config/smoke.yaml")
    jobs = planned(folder, "release", "--configfile", "config/smoke.yaml")
    assert jobs["write_release"] == 1
    assert jobs["write_manifest"] == 1


# What may be passed on


def renamed(registry, redistribution: str):
    """The registry with one of the sources as somebody else's, under these words."""
    own = registry["azure_like"]
    return {**registry, "azure_like": dataclasses.replace(own, synthetic=False, redistribution=redistribution)}


def test_requests_that_may_not_be_passed_on_stay_out(made, registry, project, tmp_path):
    run, files = made
    write_release(run, files, renamed(registry, "May not be passed on"), project, tmp_path / "release")
    found = tables(tmp_path / "release")
    for name in ("windows", "spotcheck_measured_requests"):
        assert "azure_like" not in found[name]["source"].unique().to_pylist()
        assert found[name].num_rows
    for name in ("window_index", "cells", "calibration"):  # results on it are ours
        assert "azure_like" in found[name]["source"].unique().to_pylist()
    with (tmp_path / "release/traces.csv").open(newline="", encoding="utf-8") as file:
        held = {row["id"]: row["requests_in_release"] for row in csv.DictReader(file)}
    assert held["azure_like"] == "no"
    assert held["bailian_like"] == "yes"
    text = (tmp_path / "release/README.md").read_text()
    assert f"No request of {registry['azure_like'].title} is here" in text


def test_a_table_without_any_row_left_is_left_out(made, registry, project, tmp_path):
    run, files = made
    foreign = {
        name: dataclasses.replace(source, synthetic=False, redistribution="Ask the publisher")
        for name, source in registry.items()
    }
    write_release(run, files, foreign, project, tmp_path / "release")
    assert "windows" not in tables(tmp_path / "release")


@pytest.mark.parametrize(
    ("redistribution", "expected"),
    [
        ("May be passed on with attribution; not part of this repository", True),
        ("May be passed on with its licence notice; not part of this repository", False),
        ("May not be passed on", False),
        ("May be passed on with attribution", True),
        ("Unknown", False),
    ],
)
def test_only_attribution_is_a_condition_that_a_release_meets(registry, redistribution, expected):
    assert may_be_passed_on(renamed(registry, redistribution)["azure_like"]) is expected
    assert may_be_passed_on(registry["azure_like"])


def test_requests_of_an_unregistered_source_stop_it(made, registry, project, tmp_path):
    run, files = made
    known = {name: source for name, source in registry.items() if name != "bailian_like"}
    with pytest.raises(UserError, match=r"'bailian_like' is not in config/sources\.tsv"):
        write_release(run, files, known, project, tmp_path / "release")
    assert list(tmp_path.iterdir()) == []


# Mistakes


def test_a_file_without_a_place_stops_it_and_leaves_the_former_release(made, registry, project, released, tmp_path):
    run, files = made
    out = tmp_path / "release"
    write_release(run, files, registry, project, out)
    stray = run.folder / "stray.parquet"
    with pytest.raises(UserError, match=r"stray\.parquet: no table of a release takes it"):
        write_release(run, [*files, stray], registry, project, out)
    assert contents(out) == contents(released)
    assert [path.name for path in tmp_path.iterdir()] == ["release"]
    with pytest.raises(UserError, match="lies in no folder of the run"):
        write_release(run, [*files, project / "README.md"], registry, project, out)


def test_parts_with_other_columns_stop_it(tmp_path):
    for name in ("a", "b"):
        field = column(name, pa.int32(), "a number")
        pq.write_table(pa.table({name: pa.array([1], pa.int32())}, schema=pa.schema([field])), tmp_path / name)
    place = place_of(Path("cells/published/azure_like/fifo.parquet"))
    place = dataclasses.replace(place, words={})
    with pytest.raises(UserError, match="its columns differ from those of the other parts of cells"):
        put_together([(tmp_path / "a", place), (tmp_path / "b", place)])


def test_a_column_that_does_not_say_what_it_means_stops_it(tmp_path):
    place = place_of(Path("cells/published/azure_like/fifo.parquet"))
    with pytest.raises(ValueError, match=r"no meaning of the columns \['mute'\]"):
        write_released(pa.table({"mute": [1]}), place, tmp_path)


def test_a_citation_without_a_date_stops_it(made, registry, project, tmp_path):
    run, files = made
    text = (project / "CITATION.cff").read_text()
    kept = [line for line in text.splitlines() if not line.startswith("date-released")]
    (tmp_path / "CITATION.cff").write_text("\n".join(kept))
    with pytest.raises(UserError, match=r"CITATION\.cff: date-released not stated"):
        write_release(run, files, registry, tmp_path, tmp_path / "release")


@pytest.mark.parametrize(
    ("name", "dtype", "meaning", "unit"),
    [
        ("mean_ttft", pa.float64(), "mean of first token - arrival [s]; NaN if no request completed", "s"),
        ("interarrival_p50_s", pa.float64(), "50th percentile of the gaps", "s"),
        ("rate", pa.float64(), "largest arrival rate, 1/s; NaN if it cannot be computed", "1/s"),
        ("prompt_tokens_p90", pa.float64(), "90th percentile of prompt tokens", "tokens"),
        ("anwg", pa.float64(), "share of requests done by their deadline", "share"),
        ("token_s", pa.string(), "text", ""),
        ("tau_b", pa.float64(), "Kendall's tau-b", ""),
        ("prompt_tokens_mean", pa.float64(), "change of the log odds by one sd of prompt_tokens_mean", ""),
        ("kv_token_s", pa.float64(), "fit: seconds a KV token that decodes read", ""),
    ],
)
def test_units(name, dtype, meaning, unit):
    assert unit_of(column(name, dtype, meaning)) == unit


def test_places():
    assert place_of(Path("slo/published/10/azure_like.parquet")).words["slo_multiplier"] == "10"
    assert place_of(Path("statistics/separability.parquet")).table == "statistics_separability"
    assert place_of(Path(MEASURED) / "requests.parquet").holds_requests
    with pytest.raises(UserError, match="no table of a release takes it"):
        place_of(Path("statistics/published/unheard_of.parquet"))


def test_every_table_of_the_spotcheck_has_a_place():
    assert {place_of(Path(f"spotcheck/{name}.parquet")).table for name in ANALYSES} == {
        f"spotcheck_{name}" for name in ANALYSES
    }
    assert len({place_of(Path(MEASURED) / f"{name}.parquet").table for name in MEASURED_TABLES}) == len(MEASURED_TABLES)


def test_command(made, released, project, tmp_path, monkeypatch):
    run, files = made
    monkeypatch.chdir(project)
    arguments = [
        *("release", *map(str, files), "--run-dir", str(run.folder), "--figures", str(run.figures)),
        *("--tables", str(run.tables), "--measurements", str(run.measurements), "--manifest", str(run.manifest)),
        *("--config", json.dumps(CONFIG), f"--run-options={run.options}", "--out", str(tmp_path / "release")),
    ]
    assert main(arguments) == 0
    assert contents(tmp_path / "release") == contents(released)


# The published validators


def needs(state_fact, *modules: str) -> None:
    """Skip, and say so at the end of the test run, where validators are not installed."""
    lacking = [name for name in modules if find_spec(name) is None]
    if lacking:
        reason = f"{', '.join(lacking)} not installed; pip install -e '.[validators]'"
        state_fact(f"NOT CHECKED: the release by a published validator: {reason}")
        pytest.skip(reason)


def test_croissant_validator(released, state_fact):
    needs(state_fact, "mlcroissant")
    import mlcroissant

    dataset = mlcroissant.Dataset(released / "croissant.json")
    issues = dataset.metadata.ctx.issues
    assert not issues.errors
    assert not issues.warnings
    cell = next(iter(dataset.records("cells")))
    assert cell["cells/model"] == b"published"
    state_fact(f"Croissant: valid by mlcroissant, {len(dataset.metadata.record_sets)} tables")


def test_ro_crate_validator(released, state_fact, monkeypatch):
    """The specification's context comes from the package `rocrate`, not from the network."""
    needs(state_fact, "rocrate_validator", "rocrate")
    import io

    import requests
    import rocrate
    from rocrate_validator import models, services

    context = (Path(rocrate.__file__).parent / "data/ro-crate.jsonld").read_bytes()

    def send(self, request, **_):
        response = requests.Response()
        response.url, response.request, response.status_code = request.url, request, 200
        response.headers["Content-Type"] = "application/ld+json"
        response.raw = io.BytesIO(context)
        assert request.url == json.loads(context)["@id"]
        return response

    monkeypatch.setattr(requests.adapters.HTTPAdapter, "send", send)
    settings = services.ValidationSettings(rocrate_uri=str(released), profile_identifier="ro-crate-1.3", no_cache=True)
    result = services.validate(settings)
    told = [f"{issue.check.identifier}: {issue.message}" for issue in result.get_issues(models.Severity.REQUIRED)]
    assert result.passed(models.Severity.REQUIRED), told
    state_fact("RO-Crate: valid by rocrate-validator, profile ro-crate-1.3")
