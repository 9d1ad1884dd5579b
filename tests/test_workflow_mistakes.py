"""The workflow in copies of the project without results: mistakes in files and configuration, mirrors of raw traces."""

import shutil
import subprocess

import pytest
from project_copy import SNAKEMAKE, copy_of, environment, planned, snakemake

from servestudy.traces.registry import load_sources


def test_a_config_with_three_mistakes_prints_three_lines(project, tmp_path):
    folder = copy_of(project, tmp_path / "project")
    mistakes = "run: mine\nwindws: {stage0: 2}\nrepetitions: 0\nschedulers: [fifo, edff]\n"
    (folder / "mine.yaml").write_text(mistakes)
    result = subprocess.run(
        [SNAKEMAKE, "--cores", "1", "--configfile", "mine.yaml"],
        cwd=folder,
        env=environment(folder),
        capture_output=True,
        text=True,
    )
    assert result.returncode == 1
    assert result.stdout == ""
    assert result.stderr.splitlines()[1:] == [  # the first line is Snakemake's, about the profile
        'mine.yaml: windws: unknown key "windws"; did you mean windows?',
        "mine.yaml: repetitions: found 0; allowed: a whole number, 1 or more",
        'mine.yaml: schedulers[1]: unknown name "edff"; did you mean edf? (config/schedulers.yaml)',
    ]


def test_broken_default_config_is_named_with_its_line(project, tmp_path):
    folder = copy_of(project, tmp_path / "project")
    (folder / "config/config.yaml").write_text("run: embedded\nsources: [a\nmodels: [b]\n")
    result = snakemake(folder, "--cores", "1")
    assert result.returncode == 1
    assert "config/config.yaml: line 3: not valid YAML" in result.stdout
    assert "Traceback" not in result.stdout


def test_failed_job_shows_its_log(project, tmp_path):
    folder = copy_of(project, tmp_path / "project")
    (folder / "mirror/azure_2023").mkdir(parents=True)
    (folder / "mirror/azure_2023/AzureLLMInferenceTrace_code.csv").write_text("wrong\n")
    target = "data/raw/azure_2023/79092101/AzureLLMInferenceTrace_code.csv"
    result = snakemake(folder, target, "--cores", "1", SERVESTUDY_TRACE_MIRROR="mirror")
    assert result.returncode == 1
    assert "it has 6 bytes, the registry states 320117" in result.stdout
    assert not (folder / target).exists()


# The mirror of raw traces


@pytest.mark.parametrize("how", ["environment", "config"])
def test_mirror_may_be_a_relative_path(project, shared, tmp_path, how):
    folder = copy_of(project, tmp_path / "project")
    (tmp_path / "mirror").symlink_to(shared / "traces")
    target = "data/raw/azure_2023/79092101/AzureLLMInferenceTrace_code.csv"
    arguments = ["--config", "traces={mirror: ../mirror}"] if how == "config" else []
    variables = {"SERVESTUDY_TRACE_MIRROR": "../mirror"} if how == "environment" else {}
    result = snakemake(folder, target, "--cores", "1", *arguments, **variables)
    assert result.returncode == 0, result.stdout
    original = shared / "traces/azure_2023/AzureLLMInferenceTrace_code.csv"
    assert (folder / target).read_bytes() == original.read_bytes()
    assert planned(folder, target) == {}, "where a file came from is no reason to get it again"


def test_a_verified_raw_trace_is_not_deleted_to_be_fetched_again(project, shared, tmp_path):
    folder = copy_of(project, tmp_path / "forced")
    source = load_sources(project / "config/sources.tsv")["azure_2023_conv"]
    trace = source.raw_path("data/raw")
    (folder / trace).parent.mkdir(parents=True)
    shutil.copy(source.mirror_path(shared / "traces"), folder / trace)
    call = (trace.as_posix(), "-f", "--cores", "1", "--configfile", "config/real.yaml")
    assert snakemake(folder, *call).returncode == 0  # no mirror, and no need of a network
    (folder / trace).write_text("not the trace")
    assert snakemake(folder, *call).returncode == 1
    assert (folder / trace).read_text() == "not the trace"  # named in the message, left alone
