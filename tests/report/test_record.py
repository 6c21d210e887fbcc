"""Records keep what a figure needs, and nothing of the machine's folders."""

import json

import pytest

from niso.errors import InputError
from niso.report.record import read_record, write_record


@pytest.fixture
def run(niso, tiny, tmp_path):
    path = tmp_path / "some folder" / "run"
    assert niso("run", "torus", *tiny, "--seed", 3, "--out", path).status == 0
    return path


def test_a_record_has_settings_facts_and_figures(run, tmp_path, niso):
    assert niso("record", run, "--to", tmp_path / "results").status == 0
    path = tmp_path / "results" / "torus-quick-niso-seed3.json"
    record = read_record(path)
    assert record["metrics"] == json.loads((run / "metrics.json").read_text())
    assert record["settings"]["config"]["size"] == 4
    assert record["facts"]["torch"] and record["facts"]["hardware"]
    assert str(tmp_path) not in path.read_text()


def test_the_data_folder_is_named_without_its_path(run, tmp_path):
    config = run / "config.yaml"
    config.write_text(config.read_text().replace("data_dir: null", "data_dir: secret/place/photos"))
    record = read_record(write_record(run, tmp_path))
    assert record["settings"]["data_dir"] == "photos"


def test_writing_again_is_allowed_for_the_same_settings_only(run, tmp_path):
    path = write_record(run, tmp_path)
    assert write_record(run, tmp_path) == path
    config = run / "config.yaml"
    config.write_text(config.read_text().replace("images: 3", "images: 5"))
    before = path.read_text()
    with pytest.raises(InputError, match="other settings"):
        write_record(run, tmp_path)
    assert path.read_text() == before


def test_an_unfinished_run_has_no_record(run, tmp_path, refused):
    (run / "metrics.json").unlink()
    assert "not finished" in refused("record", run, "--to", tmp_path / "results")
    assert not (tmp_path / "results").exists()


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"experiment": "torus"}', "\x00"])
def test_what_is_not_a_record_is_refused(tmp_path, content):
    path = tmp_path / "x.json"
    path.write_text(content)
    with pytest.raises(InputError, match=r"x\.json"):
        read_record(path)


def test_record_needs_a_run_and_a_folder(refused, run):
    assert "one or more run folders" in refused("record")
    assert "--to needs a value" in refused("record", run, "--to")
