"""Records keep what a result needs, and nothing of the machine's folders."""

import json
import shutil
from pathlib import Path

import pytest
import torch

from niso.cli.run import parse_run
from niso.config import flat
from niso.errors import InputError
from niso.experiments.settings import Settings
from niso.runs.record import write_record
from niso.training.run import Run

RESULTS = Path(__file__).parents[2] / "results"


@pytest.fixture
def run(finished_once, tmp_path):
    """A finished run, as if it had been trained without --data-dir."""
    copy = Run.open(shutil.copytree(finished_once, tmp_path / "some folder" / "run"))
    return edit(copy, f"data_dir: {copy.settings['data_dir']}", "data_dir: null")


def edit(run, old, new):
    """The run as if it had been trained with another setting."""
    changed = change(run, old, new)
    changed.write("facts", {**changed.facts, "settings": changed.determining})
    return changed


def change(run, old, new):
    """The run with another setting in its config.yaml than it was trained with."""
    config = run.path / "config.yaml"
    assert old in config.read_text()
    config.write_text(config.read_text().replace(old, new))
    return Run.open(run.path)


def test_a_record_has_settings_facts_and_metrics(run, tmp_path, niso):
    edit(run, "seed: 0", "seed: 3")
    assert niso("record", run.path, "--to", tmp_path / "results").status == 0
    path = tmp_path / "results" / "torus-quick-niso-seed3.json"
    record = Run.read(path)
    assert record.metrics == json.loads((run.path / "metrics.json").read_text())
    assert record.settings["config"]["size"] == 4 and record.kind == ("torus", "quick", "niso") and record.seed == 3
    assert record.facts["torch"] and record.facts["hardware"] and record.finished
    assert str(tmp_path) not in path.read_text()


def test_nothing_is_recorded_where_one_run_cannot_be(run, tmp_path, refused):
    """The second has the name of the first, and began at another time."""
    other = Run.open(shutil.copytree(run.path, tmp_path / "other"))
    kept = write_record(other, tmp_path / "kept")
    other.write("facts", {**other.facts, "started": "2031-01-01T00:00:00+00:00"})
    first = edit(run, "seed: 0", "seed: 3")
    assert "began at another time" in refused("record", first.path, other.path, "--to", tmp_path / "kept")
    assert list(kept.parent.iterdir()) == [kept]
    new = Run.open(shutil.copytree(other.path, tmp_path / "new"))
    assert "would have one record" in refused("record", other.path, new.path, "--to", tmp_path / "empty")
    assert not (tmp_path / "empty").exists()


@pytest.mark.parametrize("fact", ["evaluated", "earlier"])
def test_a_later_evaluation_and_other_places_are_noted(run, tmp_path, fact):
    assert fact not in Run.read(write_record(run, tmp_path)).facts
    place = {"commit": "f67af1c6552e", "started": "2026-11-23T07:41:47+00:00"}
    run.write("facts", {**run.facts, fact: place})
    assert Run.read(write_record(run, tmp_path)).facts[fact] == place


def test_settings_that_were_changed_since_are_refused(run, tmp_path, niso):
    write_record(run, tmp_path / "kept")
    changed = change(run, "images: 3", "images: 5")
    with pytest.raises(InputError, match="was changed after it was finished"):
        write_record(changed, tmp_path / "changed")
    twice = niso("report", run.path, run.path, "--out", tmp_path / "c.html")
    assert twice.err.count("its results are of the settings before") == 1


def test_a_record_of_another_run_stays(run, tmp_path):
    write_record(run, tmp_path)
    run.write("facts", {**run.facts, "started": "2031-01-01T00:00:00+00:00"})
    with pytest.raises(InputError, match="began at another time"):
        write_record(run, tmp_path)
    run.write("facts", {**run.facts, "started": None})  # not known: it may be the same
    write_record(run, tmp_path)


def test_the_data_folder_is_named_without_its_path(run, tmp_path):
    record = Run.read(write_record(edit(run, "data_dir: null", "data_dir: secret/place/photos"), tmp_path))
    assert record.settings["data_dir"] == "photos"


def test_files_in_settings_are_named_without_their_paths(run, tmp_path):
    run = edit(run, "images: 3", "images: [/secret/place/list.json, nearby/list.json]")
    assert Run.read(write_record(run, tmp_path)).settings["config"]["images"] == ["list.json", "nearby/list.json"]


def test_writing_again_is_allowed_for_the_same_settings_only(run, tmp_path):
    path = write_record(run, tmp_path)
    assert write_record(run, tmp_path) == path
    before = path.read_text()
    with pytest.raises(InputError, match="other settings"):
        write_record(edit(run, "images: 3", "images: 5"), tmp_path)
    edit(run, "images: 5", "images: 3")
    with pytest.raises(InputError, match="on other data"):
        write_record(edit(run, "data_dir: null", "data_dir: photos"), tmp_path)
    assert path.read_text() == before


def test_an_unfinished_run_has_no_record(run, tmp_path, refused):
    (run.path / "metrics.json").unlink()
    assert "not finished" in refused("record", run.path, "--to", tmp_path / "results")
    assert not (tmp_path / "results").exists()


def test_a_record_of_a_record_is_refused(run, tmp_path, refused):
    assert "it is a record" in refused("record", write_record(run, tmp_path))


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"experiment": "torus"}', "\x00"])
def test_what_is_not_a_record_is_refused(tmp_path, content):
    path = tmp_path / "x.json"
    path.write_text(content)
    with pytest.raises(InputError, match=r"x\.json"):
        Run.read(path)


@pytest.mark.parametrize("part", ["metrics", "facts", "settings"])
def test_parts_of_a_record_are_objects(run, tmp_path, part):
    path = write_record(run, tmp_path)
    path.write_text(json.dumps({**json.loads(path.read_text()), part: [1]}))
    with pytest.raises(InputError, match=f"its {part} are not an object"):
        Run.read(path)


def test_record_needs_a_run_and_a_folder(refused, run):
    assert "one or more run folders" in refused("record")
    assert "--to needs a value" in refused("record", run.path, "--to")


def test_what_config_leaves_to_its_default_is_known_from_the_facts(run, tmp_path):
    path = write_record(edit(edit(run, "method: niso\n", ""), "preset: quick\n", ""), tmp_path)
    assert path.name == "torus-quick-niso-seed0.json"


def test_a_run_is_trained_again_from_its_record(finished_once, tmp_path, niso, weights):
    run, again = Run.open(finished_once), tmp_path / "again"
    record, data = write_record(run, tmp_path / "results"), run.settings["data_dir"]
    assert niso("run", "torus", "--config", record, "--data-dir", data, "--out", again).status == 0
    first, second = weights(run.path), weights(again)
    assert first.keys() == second.keys() and all(torch.equal(first[name], second[name]) for name in first)


def test_a_record_that_lacks_a_newer_setting_has_its_default_not_that_of_a_preset(tmp_path):
    records = RESULTS / "homnist-small" / "homnist-small-niso-seed0.json"
    assert "label_smoothing" not in Run.read(records).settings["config"]
    (again,) = parse_run(["homnist", "--config", str(records), "--data-dir", str(tmp_path)]).several
    assert (again.preset, again.method, again.config.label_smoothing) == ("small", "niso", 0.0)
    assert parse_run(["homnist", "--preset", "small"]).settings.config.label_smoothing > 0


def test_a_record_of_data_in_a_folder_asks_for_that(run, tmp_path, refused):
    record = write_record(edit(run, "data_dir: null", f"data_dir: {tmp_path / 'photographs'}"), tmp_path)
    line = refused("run", "torus", "--config", record, "--out", tmp_path / "again")
    assert "is the record of a run on the data photographs: give that by --data-dir" in line
    assert "is a configuration of 'torus', not of 'homnist'" in refused("run", "homnist", "--config", record)
    line = refused("run", "torus", "--config", record, "--data-dir", tmp_path, "--preset", "standard")
    assert "--preset has no effect, leave it out: the record" in line


def test_settings_may_be_json(tmp_path):
    (tmp_path / "settings.json").write_text('{"config": {"rank": 8}}')
    assert parse_run(["homnist", "--config", str(tmp_path / "settings.json")]).settings.config.rank == 8


def test_the_settings_of_all_records_are_those_of_today():
    """One record of each set of names."""
    named = dict[object, Run]()
    for path in RESULTS.glob("[!w]*/**/*.json"):  # weights are saved models
        run = Run.read(path)
        named[run.kind[0], frozenset(name for name, _ in flat(run.settings))] = run
    assert named
    for run in named.values():
        Settings.load({**run.settings, "data_dir": None}, run.path)
