import json
import math
from pathlib import Path

import numpy as np
import pytest

from niso.errors import InputError
from niso.files.locks import locked
from niso.results import Metric
from niso.training import checkpoint
from niso.training.log import Log, read_log
from niso.training.run import Run


def test_a_new_run(tmp_path):
    run = Run.create(tmp_path / "deep" / "run", {"seed": 3, "name": "ü"})
    assert run.settings == {"seed": 3, "name": "ü"}
    assert Run.open(run.path) == run
    assert not run.finished and run.facts == {}
    assert run.checkpoint("head") == run.path / "checkpoints" / "head.safetensors"
    run.write("metrics", {"a": 0.5})
    assert run.finished and run.metrics == {"a": 0.5}


def test_an_empty_folder_will_do(tmp_path):
    assert Run.create(tmp_path, {"seed": 1}).settings == {"seed": 1}


def content(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize(
    ("files", "words"),
    [
        (["config.yaml", "metrics.json"], "already holds a finished run: choose another --out"),
        (["metrics.json"], "already holds a finished run"),
        (["config.yaml"], "unfinished run.*niso resume"),
        (["thesis.tex"], "not an empty folder"),
        ([".hidden"], "not an empty folder"),
    ],
)
def test_what_is_there_is_never_lost(tmp_path, files, words):
    for name in files:
        (tmp_path / name).write_text("precious")
    before = content(tmp_path)
    with pytest.raises(InputError, match=words) as error:
        Run.create(tmp_path, {})
    assert "\n" not in str(error.value) and str(tmp_path) in str(error.value)
    assert content(tmp_path) == before


def test_a_file_is_no_folder(tmp_path):
    file = tmp_path / "file"
    file.write_text("precious")
    with pytest.raises(InputError, match="not an empty folder"):
        Run.create(file, {})
    with pytest.raises(InputError, match=r"cannot write to .*: choose another --out"):
        Run.create(file / "run", {})
    assert file.read_text() == "precious"


def test_a_folder_that_cannot_be_written():
    with pytest.raises(InputError, match="cannot write to /proc/niso"):
        Run.create(Path("/proc/niso"), {})


def test_opening_what_is_no_run(tmp_path):
    with pytest.raises(InputError, match=r"not a run folder: it has no config\.yaml"):
        Run.open(tmp_path)
    with pytest.raises(InputError, match="there is no such folder"):
        Run.open(tmp_path / "none")


@pytest.mark.parametrize("damage", [b"", b"{", b"\xff\xfe", b"[1"])
def test_damaged_json_names_its_remedy(tmp_path, damage):
    run = Run.create(tmp_path, {})
    for name, remedy in {"metrics.json": "niso evaluate", "run.json": "restore it from a copy"}.items():
        (tmp_path / name).write_bytes(damage)
        with pytest.raises(InputError, match=rf"cannot read .*{name}.*{remedy}"):
            _ = run.metrics if name == "metrics.json" else run.facts


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        ({"metrics": [1]}, "metrics must be an object: restore it from a copy, or start a new run"),
        ({"targets": 3}, "targets must be an object"),
        ({"notes": "all is well"}, "notes must be a list"),
        ({"metrics": {"a": 3}}, "a: Input should be a dictionary"),
        ({"metrics": {"a": {"text": "x", "better": "high"}}}, "a: better: Input should be 'higher' or 'lower'"),
    ],
)
def test_damaged_facts_are_refused(tmp_path, facts, words):
    run = Run.create(tmp_path, {"seed": 1})
    run.write("facts", facts)
    with pytest.raises(InputError, match=words):
        assert run.described


def test_metrics_that_had_limits_are_read(tmp_path):
    """As runs were written once."""
    run = Run.create(tmp_path, {"seed": 1})
    meant = {"text": "an angle", "better": "lower", "unit": "°"}
    run.write("facts", {"metrics": {"angle": meant | {"limit": 90.0, "alarm": "It is reversed"}}})
    assert run.described == {"angle": Metric("angle", **meant)}


def test_files_are_json_to_strict_readers_whatever_was_measured(tmp_path):
    run = Run.create(tmp_path, {"seed": 1})
    run.write("metrics", {"a": math.nan, "b": 1.5, "c": math.inf})
    run.write("curves", {"loss": {"x": [0, 1], "y": [math.nan, 2.0]}})
    run.write("facts", {"speed": {"seconds": (math.inf, 0.5)}})
    for file in tmp_path.glob("*.json"):
        json.loads(file.read_text(), parse_constant=pytest.fail)
    assert math.isnan(run.metrics["a"]) and run.metrics["b"] == 1.5 and math.isnan(run.metrics["c"])
    np.testing.assert_array_equal(run.curves["loss"]["y"], [math.nan, 2.0])
    assert run.facts == {"speed": {"seconds": [None, 0.5]}}


@pytest.mark.parametrize(
    ("value", "problem"),
    [(10**400, "is too large"), (True, "must be a number, not True"), ("0.9", "must be a number, not '0.9'")],
)
def test_metrics_that_are_no_floats_are_refused(tmp_path, value, problem):
    run = Run.create(tmp_path, {"seed": 1})
    run.write("metrics", {"loss": value})
    with pytest.raises(InputError, match=rf"loss {problem}.*niso evaluate"):
        assert run.metrics


def test_curves_beyond_floats_are_refused(tmp_path):
    run = Run.create(tmp_path, {"seed": 1})
    run.write("curves", {"loss": {"x": [0], "y": [10**400]}})
    with pytest.raises(InputError, match=r"curves .* are damaged"):
        assert run.curves


def test_only_a_run_that_has_not_begun_can_be_withdrawn(tmp_path):
    run = Run.create(tmp_path / "a", {})
    run.write("facts", {})
    run.withdraw()
    assert not run.path.exists()
    run = Run.create(tmp_path / "b", {})
    (run.path / "log.csv").touch()
    run.withdraw()
    assert run.settings == {}


def test_a_lock_that_is_held_keeps_no_folder(tmp_path, monkeypatch):
    """As on Windows, where an open file is not removed."""
    held, unlink = [True], Path.unlink

    def refused(path, missing_ok=False):
        if path.name == ".lock" and held[0]:
            raise PermissionError
        unlink(path, missing_ok)

    monkeypatch.setattr(Path, "unlink", refused)
    for unlock, stays in ((lambda: None, True), (lambda: held.clear() or held.append(False), False)):
        run = Run.create(tmp_path / str(stays), {})
        (run.path / ".lock").touch()
        run.withdraw(unlock)
        assert not (run.path / "config.yaml").exists() and run.path.exists() == stays


def test_two_processes_cannot_work_on_one_run(tmp_path):
    run = Run.create(tmp_path / "run", {})
    with locked(run.path), pytest.raises(InputError, match="another process works on"), locked(run.path):
        pass
    with locked(run.path):  # the lock went with its owner
        pass


def test_what_a_path_names(tmp_path):
    runs = [Run.create(tmp_path / "sweep" / f"seed{seed}", {"seed": seed}) for seed in (2, 10, 9)]
    assert Run.find(tmp_path / "sweep") == [runs[0], runs[2], runs[1]]
    assert Run.find(runs[0].path) == [runs[0]] and runs[0].name == "sweep/seed2"
    assert Run.find(runs[1].path, tmp_path / "sweep") == [runs[1], runs[0], runs[2]]  # each once
    file = tmp_path / "results" / "one.json"
    file.parent.mkdir()
    file.write_text(
        json.dumps({"experiment": "e", "preset": "p", "method": "m", "seed": 1, "metrics": {}, "facts": {}})
    )
    assert Run.find(file.parent) == Run.find(file) == [Run.read(file)]
    assert Run.read(file).kind == ("e", "p", "m") and Run.read(file).seed == 1 and Run.read(file).name == "one"
    (tmp_path / "empty").mkdir()
    for name, words in (("empty", r"it has no config\.yaml"), ("nowhere", "there is no such folder")):
        with pytest.raises(InputError, match=f"{name} is not a run folder: {words}"):
            Run.find(tmp_path / name)


def test_folders_of_several_runs_in_a_folder_are_not_passed_over(tmp_path):
    alone = Run.create(tmp_path / "z", {"seed": 1})
    of_sweep = [Run.create(tmp_path / "a" / f"seed{seed}", {"seed": seed}) for seed in (3, 4)]
    (tmp_path / "a" / "sweep.yaml").touch()
    assert Run.find(tmp_path) == [alone, *of_sweep]


def test_phases_that_are_trained_again_are_no_longer_in_the_log(tmp_path):
    run = Run.create(tmp_path / "run", {})
    assert not (run.forget_phases(["pretrain"]) or run.log)
    run.checkpoint("head").parent.mkdir()
    for phase in ("pretrain", "head"):
        saved(run, phase, 1)
        log = Log(run.path, phase, 0)
        log.write(1, 0.1, 0.0, {"loss": 1.0})
        log.close()
    run.forget_phases(["pretrain"])
    assert run.log.keys() == {"pretrain"} and "pretrain stands at step 1" in run.standing
    assert [file.name for file in (run.path / "tensorboard").iterdir()] == ["pretrain"]
    assert run.checkpoint("pretrain").exists() and not run.checkpoint("head").exists()


def saved(run: Run, phase: str, step: int) -> None:
    """A checkpoint of a phase, without tensors."""
    checkpoint.save(run.checkpoint(phase), {}, {"step": step, "seconds": 0.0, "determining": {}, "row": {}})


def test_a_run_stands_where_training_goes_on(tmp_path):
    """That is at its checkpoints; a killed run has logged steps beyond them."""
    steps = {"training": {"steps": 3000}, "head": {"steps": 20}}
    run = Run.create(tmp_path / "run", {"config": steps})
    assert "is not finished: nothing is trained yet; `niso resume" in run.standing
    (run.path / "log.csv").write_text("phase,step,loss\npretrain,910,1\npretrain,917,1\n")
    assert "pretrain stands at step 0 of 3000; `niso resume" in run.standing
    run.checkpoint("head").parent.mkdir()
    saved(run, "pretrain", 900)
    assert "pretrain stands at step 900 of 3000" in run.standing
    saved(run, "pretrain", 3000)
    assert "pretrain stands at step 3000 of 3000" in run.standing
    (run.path / "log.csv").write_text("phase,step,loss\npretrain,3000,1\nhead,10,1\n")
    assert "head stands at step 0 of 20" in run.standing
    saved(run, "head", 5)
    assert "head stands at step 5 of 20" in run.standing
    run.checkpoint("pretrain").unlink()  # heads build on it
    assert "pretrain stands at step 0 of 3000" in run.standing
    (run.path / "log.csv").unlink()
    assert "head stands at step 5 of 20" in run.standing


@pytest.mark.parametrize("content", [b"", b"nonsense"])
def test_a_run_whose_checkpoint_is_damaged_does_not_go_on(tmp_path, content):
    run = Run.create(tmp_path, {})
    run.checkpoint("pretrain").parent.mkdir()
    run.checkpoint("pretrain").write_bytes(content)
    assert "restore it from a copy, or delete it" in run.standing and "goes on" not in run.standing
    checkpoint.save(run.checkpoint("pretrain"), {}, {"step": 3})
    assert "does not say how it was trained" in run.standing


def test_metrics_have_a_text_a_direction_and_a_unit(tmp_path):
    run = Run.create(tmp_path, {})
    assert run.described == {}
    run.write("facts", {"metrics": {"a": {"text": "A", "better": "lower", "unit": "s"}}})
    assert run.described == {"a": Metric("a", "A", "lower", "s")}


def test_the_log_has_a_table_for_each_phase(tmp_path):
    run = Run.create(tmp_path, {})
    assert run.log == {}
    (tmp_path / "log.csv").write_text("phase,step,loss,accuracy\npre,1,0.5,\npre,2,nonsense,\nhead,1,,0.5\nhead,2,,0.")
    assert {phase: list(columns) for phase, columns in run.log.items()} == {
        "pre": ["step", "loss"],
        "head": ["step", "accuracy"],
    }
    assert run.log["head"]["step"].tolist() == [1]  # the last line was cut off
    content = (tmp_path / "log.csv").read_bytes()
    (tmp_path / "log.csv").write_bytes(b"\xef\xbb\xbf" + content.replace(b"\n", b"\r\n"))  # saved by a spreadsheet
    assert [row["phase"] for row in read_log(tmp_path / "log.csv")] == ["pre", "pre", "head"]
    np.testing.assert_array_equal(run.log["pre"]["loss"], [0.5, np.nan])
