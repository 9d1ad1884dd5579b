"""The registry of sources: what it says, and that every mistake in it is named."""

import pytest

from servestudy.errors import UserError
from servestudy.files import sha256_of
from servestudy.traces.reading import FORMATS
from servestudy.traces.registry import COLUMNS, load_sources

GOOD = {
    "id": "some_trace",
    "title": "Some trace",
    "dataset": "some",
    "format": "azure",
    "columns": "",
    "version": "v1",
    "file": "some.csv",
    "url": "https://example.org/some.csv",
    "sha256": "0" * 64,
    "bytes": "10",
    "rows": "",
    "skip_rows": "0",
    "sampling_seed": "1",
    "synthetic": "no",
    "licence": "MIT",
    "redistribution": "yes",
    "citation": "nobody",
}


@pytest.fixture
def registry(tmp_path):
    """Write a registry of rows that differ from GOOD as given; returns its path."""

    def write(*rows, header=COLUMNS):
        lines = ["\t".join(header)] + ["\t".join({**GOOD, **row}.values()) for row in rows]
        path = tmp_path / "sources.tsv"
        path.write_text("\n".join(lines) + "\n")
        return path

    return write


def problems(path):
    with pytest.raises(UserError) as caught:
        load_sources(path)
    return str(caught.value).splitlines()


def test_the_registry_of_the_project(project):
    sources = load_sources(project / "config/sources.tsv")
    assert len(sources) == 9
    assert {source.format for source in sources.values()} == set(FORMATS)
    published = {
        "burstgpt": (3_784_213, 500_000, 20260901, "burstgpt_like"),
        "azure_llm_2024": (27_303_999, 200_000, 20260902, "azure_like"),
        "bailian_qwen": (172_800, 50_000, 20260903, "bailian_like"),
    }
    for name, (rows, skip_rows, seed, embedded) in published.items():
        assert (sources[name].rows, sources[name].skip_rows, sources[name].sampling_seed) == (
            rows,
            skip_rows,
            seed,
        )
        assert not sources[name].synthetic
        assert sources[embedded].synthetic
        assert sources[embedded].sampling_seed == seed
        assert sources[embedded].format == sources[name].format
        assert sources[embedded].url is None
    assert len({source.raw_path("raw") for source in sources.values()}) == len(sources)


def test_registered_files_are_those_of_the_mirror(project, shared):
    sources = load_sources(project / "config/sources.tsv")
    for name in ("azure_2023_conv", "azure_2023_code", "mooncake_conversation"):
        copy = sources[name].mirror_path(shared / "traces")
        assert copy.stat().st_size == sources[name].bytes
        assert sha256_of(copy) == sources[name].sha256


def test_a_row_becomes_typed(registry, tmp_path):
    source = load_sources(registry({"bytes": "1135195393", "synthetic": "no"}))["some_trace"]
    assert (source.bytes, source.rows, source.skip_rows, source.synthetic) == (1135195393, None, 0, False)
    assert source.raw_path(tmp_path) == tmp_path / "some" / "v1" / "some.csv"
    assert source.mirror_path(tmp_path) == tmp_path / "some" / "some.csv"


def test_all_problems_are_reported_at_once(registry):
    path = registry(
        {"id": "first", "format": "azur", "sha256": "ABC", "bytes": "1e6"},
        {"id": "second", "skip_rows": "-1", "synthetic": "true"},
        {"id": "first"},
    )
    found = problems(path)
    assert len(found) == 6
    formats = "azure, burstgpt, bailian, mooncake, or csv or jsonl with columns"
    assert f'{path}, line 2: format: found "azur"; allowed: {formats}' in found
    assert f'{path}, line 2: sha256: found "ABC"; allowed: 64 hexadecimal digits in lower case' in found
    assert any(line.startswith(f'{path}, line 2: bytes: found "1e6"') for line in found)
    assert any(line.startswith(f'{path}, line 3: skip_rows: found "-1"') for line in found)
    assert any(line.startswith(f'{path}, line 3: synthetic: found "true"') for line in found)
    assert any(line.startswith(f'{path}, line 4: id: found "first" as in line 2') for line in found)


@pytest.mark.parametrize("column", ["sha256", "bytes"])
def test_a_real_source_needs_hash_and_size(registry, column):
    (line,) = problems(registry({column: ""}))
    assert f"line 2: {column}" in line


@pytest.mark.parametrize("column", ["url", "sha256", "bytes", "rows"])
def test_a_synthetic_source_states_no_file(registry, column):
    nothing = {"url": "", "sha256": "", "bytes": "", "rows": ""}
    values = {"url": GOOD["url"], "sha256": GOOD["sha256"], "bytes": "10", "rows": "5"}
    assert load_sources(registry({"synthetic": "yes", **nothing}))["some_trace"].bytes is None
    (line,) = problems(registry({"synthetic": "yes", **nothing, column: values[column]}))
    assert f"line 2: {column}" in line
    assert "empty for a synthetic source" in line


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("file", "../up.csv"),
        ("dataset", "a/b"),
        ("version", ".."),
        ("url", "ftp://example.org/x"),
        ("id", "9x"),
    ],
)
def test_names_cannot_leave_their_folder(registry, column, value):
    (line,) = problems(registry({column: value}))
    assert f'line 2: {column}: found "{value}"' in line


def test_wrong_columns(registry):
    (line,) = problems(registry(GOOD, header=[*COLUMNS[:-1], "citations"]))
    assert "missing column citation" in line
    assert "did you mean citation?" in line


def test_wrong_number_of_fields(registry):
    path = registry(GOOD)
    path.write_text(path.read_text().replace("\tnobody", ""))
    (line,) = problems(path)
    assert "line 2: found 16 tab-separated fields; allowed: 17" in line


def test_empty_and_missing(registry, tmp_path):
    assert "no source in it" in problems(registry())[0]
    (tmp_path / "empty.tsv").write_text("")
    assert "missing column id" in problems(tmp_path / "empty.tsv")[0]
    assert "not found" in problems(tmp_path / "absent.tsv")[0]
