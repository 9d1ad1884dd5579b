"""The settings of the serving model: what is wrong with the whole is told, not run."""

import pytest
import yaml

from servestudy.errors import UserError
from servestudy.serving_settings import load_serving_settings


def changed(project, tmp_path, change) -> str:
    settings = yaml.safe_load((project / "config/serving.yaml").read_text(encoding="utf-8"))
    change(settings)
    path = tmp_path / "serving.yaml"
    path.write_text(yaml.safe_dump(settings), encoding="utf-8")
    return str(path)


def test_shares_must_add_up(project, tmp_path):
    path = changed(project, tmp_path, lambda settings: settings["slo"]["classes"]["batch"].update(share=0.3))
    with pytest.raises(UserError, match=r"slo\.classes: found shares that add up to 1\.1; allowed: 1 in all"):
        load_serving_settings(path)


def test_every_decode_must_have_its_token(project, tmp_path):
    path = changed(project, tmp_path, lambda settings: settings["replica"].update(max_num_batched_tokens=127))
    with pytest.raises(UserError, match=r"max_num_batched_tokens: found 127; allowed: at least max_num_seqs \(128\)"):
        load_serving_settings(path)


def test_all_problems_are_told_at_once(project, tmp_path):
    def change(settings):
        settings["replica"].update(max_num_batched_tokens=1)
        settings["slo"]["classes"]["batch"].update(share=0.9)

    with pytest.raises(UserError) as error:
        load_serving_settings(changed(project, tmp_path, change))
    assert len(str(error.value).splitlines()) == 2


def test_a_relative_path_is_found_from_another_folder(project, tmp_path, monkeypatch):
    there = load_serving_settings(project / "config/serving.yaml")
    monkeypatch.chdir(tmp_path)
    assert load_serving_settings("config/serving.yaml") == there
