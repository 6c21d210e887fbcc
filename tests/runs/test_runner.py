"""A run whose config.yaml was edited: it trains on, or says why it cannot."""

import shutil
import time
import warnings
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
import torch
import yaml
from PIL import Image

from niso.errors import InputError, Interrupted
from niso.experiments import EXPERIMENTS
from niso.experiments.known import known
from niso.loading import load
from niso.report.groups import grouped
from niso.runs import facts, runner
from niso.runs.record import write_record
from niso.runs.unchanged import settings_as_trained
from niso.training import checkpoint
from niso.training.processes import make_fabric
from niso.training.run import Run


@pytest.fixture(scope="module")
def trained(tmp_path_factory, images):
    """Makes a finished run of so many steps, once."""
    from niso.cli.main import main

    made = {}

    def make(steps):
        if steps not in made:
            made[steps] = tmp_path_factory.mktemp("runs") / "run"
            options = "--size 4 --images 3 --pool 50 --batch-size 1 --evaluation-pairs 2 --warmup-steps 0".split()
            # the same learning rate at every step, whatever their number
            flat = "--learning-rate 0.01 --final-learning-rate 0.01 --eigenvalue-learning-rate 0.01"
            schedule = "--eigenvalues-frozen 0 --multiplicity-decay 0 --spectral-dropout 0"
            where = ["--data-dir", str(images), "--out", str(made[steps])]
            with pytest.raises(SystemExit) as stop:
                main(["run", "torus", *options, *flat.split(), *schedule.split(), "--steps", str(steps), *where])
            assert not stop.value.code
        return made[steps]

    return make


@pytest.fixture
def finished(trained, tmp_path):
    return shutil.copytree(trained(3), tmp_path / "run")


def stop(*_, **__):
    raise KeyboardInterrupt


def stop_by_signal(*_, **__):
    time.sleep(0.05)
    raise Interrupted("interrupted", 15)


def edit(run, section="training", **changes):
    settings = yaml.safe_load((run / "config.yaml").read_text())
    (settings["config"][section] if section else settings["config"]).update(changes)
    (run / "config.yaml").write_text(yaml.safe_dump(settings))


def test_a_folder_that_another_process_took_first_is_left_to_it(finished, tmp_path, monkeypatch):
    @contextmanager
    def taken(folder):
        raise InputError("another process works on it")
        yield

    monkeypatch.setattr(runner, "locked", taken)
    with pytest.raises(InputError, match="another process"):
        runner.run(settings_as_trained(Run.open(finished)), tmp_path / "new")
    assert {"config.yaml"} <= {file.name for file in (tmp_path / "new").iterdir()}


def test_a_finished_run_is_left_as_it_is(finished):
    before = {file: file.stat().st_mtime_ns for file in finished.rglob("*") if file.is_file()}
    assert runner.resume(finished) == Run.open(finished).metrics
    assert {file: file.stat().st_mtime_ns for file in before} == before


def test_networks_are_evaluated_in_the_precision_that_the_run_chose(finished, tmp_path, monkeypatch):
    settings = settings_as_trained(Run.open(finished))
    half = replace(settings.hardware, precision="bf16-mixed")
    fastest = replace(settings, hardware=half), make_fabric(half, tune=False)
    monkeypatch.setattr(runner, "_fastest", lambda *_: fastest)
    rounded = []

    class Watched(EXPERIMENTS.find("torus")):
        def evaluate(self):
            with self.precision():
                rounded.append(torch.is_autocast_enabled("cpu"))
            return super().evaluate()

    asked = replace(settings, hardware=replace(settings.hardware, speed="auto"))
    runner.run(asked, tmp_path / "new", make=Watched, tune=False, report=False)
    assert rounded == [True]


def test_a_lost_checkpoint_is_trained_again(finished, trained, weights):
    (finished / "checkpoints" / "pretrain.safetensors").unlink()
    with pytest.raises(InputError, match="pretrain stands at step 0 of 3: finish it by `niso resume"):
        runner.evaluate(finished)
    metrics = Run.open(finished).metrics
    again = runner.resume(finished)
    assert {key: again[key] for key in metrics if not key.startswith("seconds")} == {
        key: value for key, value in metrics.items() if not key.startswith("seconds")
    }
    for name, tensor in weights(trained(3)).items():
        torch.testing.assert_close(weights(finished)[name], tensor, rtol=0, atol=0)


def test_more_steps_are_trained(finished, trained, weights, refused):
    edit(finished, steps=6)
    assert "pretrain stands at step 3 of 6: finish it by `niso resume" in refused("evaluate", finished)
    assert runner.resume(finished)["steps"] == 6
    assert Run.open(finished).log["pretrain"]["step"].tolist() == [1, 2, 3, 4, 5, 6]
    one, other = weights(finished), weights(trained(6))
    assert all(torch.equal(one[name], other[name]) for name in other)
    assert runner.resume(finished)["steps"] == 6


def test_a_run_that_was_lengthened_is_told_from_one_that_knew_its_length(finished, trained, tmp_path):
    edit(finished, steps=6)
    runner.resume(finished)
    path = write_record(Run.open(finished), tmp_path / "records")
    for run in (Run.open(finished), Run.read(path)):
        assert run.facts["changed"] == {"training.steps": [3]}
        named = {group.settings for group in grouped([run, Run.open(trained(6))], known("torus"))}
        assert named == {"earlier training.steps = [3]", "earlier training.steps = null"}
    assert "changed" not in Run.open(trained(6)).facts
    edit(finished, cosine_steps=9)
    with pytest.raises(InputError, match="has cosine_steps 9 for phase pretrain, which was trained with None: undo"):
        runner.resume(finished)


def test_a_setting_that_config_no_longer_names_was_not_trained_with_its_default(finished, refused):
    file = finished / "config.yaml"
    file.write_text(file.read_text().replace("  pool: 50\n", ""))
    assert "pool is 20000, but the run was trained with 50: undo that" in refused("resume", finished)


def test_a_kill_amid_the_results_leaves_none_of_other_settings(finished, monkeypatch):
    before = Run.open(finished).metrics["equivariance_error"]
    edit(finished, None, evaluation_pairs=4)
    write = Run.write
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(Run, "write", lambda run, part, values: stop() if part == "metrics" else write(run, part, values))
        runner.evaluate(finished)
    assert not Run.open(finished).finished and not (finished / "report.html").exists()
    assert runner.resume(finished)["equivariance_error"] != before


def test_a_run_that_is_trained_further_has_no_report_of_before(finished, monkeypatch):
    edit(finished, steps=6)
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(runner, "train", stop)
        runner.resume(finished)
    assert not (finished / "report.html").exists()


def test_times_are_of_all_commands_of_a_run(finished, monkeypatch):
    before = Run.open(finished).facts["times"]
    edit(finished, steps=6)
    with monkeypatch.context() as patch, pytest.raises(Interrupted):
        patch.setattr(runner, "train", stop_by_signal)
        runner.resume(finished)
    interrupted = Run.open(finished).facts["times"]
    assert all(interrupted[part] >= before[part] for part in before)
    assert interrupted["training"] > before["training"] + 0.04
    metrics, times = runner.resume(finished), Run.open(finished).facts["times"]
    assert all(times[part] >= interrupted[part] for part in interrupted)
    assert metrics["seconds_wall"] > sum(interrupted.values()) and times["training"] >= metrics["seconds"]


def test_training_that_a_killed_command_did_counts(finished):
    """It wrote no times, but its checkpoint says how long it had trained."""
    edit(finished, steps=6)
    run = Run.open(finished)
    tensors, facts = checkpoint.load(run.checkpoint("pretrain"))
    checkpoint.save(run.checkpoint("pretrain"), tensors, {**facts, "seconds": 1000.0})
    run.write("facts", {**run.facts, "times": {"start": 1.0}})
    metrics, times = runner.resume(finished), Run.open(finished).facts["times"]
    assert 1000 < metrics["seconds"] < metrics["seconds_wall"] < 1100
    assert 1000 < times["training"] < 1100


PLACES = "niso commit torch hardware device devices precision compile threads whole_step".split()


@pytest.mark.parametrize("fact", [None, *PLACES])
def test_where_a_run_was_trained_before_is_told(finished, monkeypatch, fact):
    run, began = Run.open(finished), "2020-02-02T02:02:02+00:00"
    run.write("facts", {**run.facts, "started": began})
    before, place = run.facts, facts.place
    monkeypatch.setattr(facts, "place", lambda *words: place(*words) | ({fact: "another"} if fact else {}))
    edit(finished, steps=6)
    runner.resume(finished)
    now = run.facts
    assert now["started"] == began
    if fact is None:
        assert "earlier" not in now
        return
    (earlier,) = now["earlier"]
    assert now[fact] == "another" and earlier.pop("until") > began
    assert earlier == {name: before[name] for name in PLACES}


def test_an_evaluation_elsewhere_says_where(finished, monkeypatch):
    place = runner.place
    monkeypatch.setattr(runner, "place", lambda *words: {**place(*words), "torch": "9.9"})
    runner.evaluate(finished)
    found = Run.open(finished).facts
    assert found["evaluated"].keys() == {*PLACES, "started"}
    assert found["evaluated"]["torch"] == "9.9" != found["torch"]


def test_a_run_goes_by_the_precision_that_it_was_trained_in(finished, trained, tmp_path):
    file = finished / "config.yaml"
    file.write_text(file.read_text().replace("precision: 32-true", "precision: 64-true"))
    runner.evaluate(finished)
    record = Run.read(write_record(Run.open(finished), tmp_path / "records"))
    for run in (Run.open(finished), record):
        assert run.facts["precision"] == run.settings_of_results["hardware"]["precision"] == "32-true"
        assert len(grouped([run, Run.open(trained(3))], known("torus"))[0].settings) == 0


def test_tensors_of_an_earlier_evaluation_do_not_stay(finished, monkeypatch):
    kind = EXPERIMENTS.find("torus")
    evaluate = kind.evaluate

    def with_tensors(experiment):
        return replace(evaluate(experiment), tensors={name: {"a": torch.zeros(1)} for name in names})

    monkeypatch.setattr(kind, "evaluate", with_tensors)
    (finished / "own.safetensors").touch()
    for names in (["one", "two"], ["two"], []):
        runner.evaluate(finished)
        assert {file.stem for file in finished.glob("*.safetensors")} == {"own", "weights", *names}
        assert Run.open(finished).facts.get("tensors", []) == names


def test_an_evaluation_that_is_not_finite_is_one_line(finished, monkeypatch, niso):
    def broken(experiment):
        raise FloatingPointError("polar: matrices [0] hold NaN")

    monkeypatch.setattr(EXPERIMENTS.find("torus"), "evaluate", broken)
    status, _, err = niso("evaluate", finished)
    assert status == 2 and "evaluation: what the trained networks give is not finite (polar: matrices [0] hold" in err
    assert (finished / "weights.safetensors").exists()


def test_parts_of_a_batch_that_were_changed_in_training_are_told(finished):
    edit(finished, steps=6, batch_size=1, accumulation=1)
    settings = yaml.safe_load((finished / "config.yaml").read_text())
    folder = Run.open(finished)
    before = folder.facts
    before["settings"]["config"]["training"]["accumulation"] = 2
    folder.write("facts", before)
    runner.resume(finished)
    assert Run.open(finished).facts["changed"] == {"training.steps": [3], "training.accumulation": [2]}
    assert settings["config"]["training"]["accumulation"] == 1
    assert "training.accumulation was 2, now 1. Losses that compare" in (finished / "report.html").read_text()


@pytest.mark.parametrize("command", ["resume", "evaluate"])
def test_fewer_steps_and_another_model_are_refused(finished, refused, command):
    metrics = (finished / "metrics.json").read_bytes()
    edit(finished, steps=2)
    assert "config.yaml asks for 2 steps of phase pretrain, but 3 are trained: ask for" in refused(command, finished)
    edit(finished, steps=6)
    edit(finished, None, rank=7)
    assert "config.yaml: rank is 7, but the run was trained with null: undo that" in refused(command, finished)
    assert (finished / "metrics.json").read_bytes() == metrics


@pytest.mark.parametrize("command", ["resume", "evaluate"])
@pytest.mark.parametrize(
    ("section", "changes", "words"),
    [
        ("training", {"learning_rate": 0.5}, "training.learning_rate is 0.5, but the run was trained with 0.01"),
        (None, {"multiplicity": 9.0}, "multiplicity is 9.0, but the run was trained with 0.04"),
        (None, {"pool": 49}, "pool is 49, but the run was trained with 50"),
    ],
)
def test_other_settings_than_those_trained_with_are_refused(finished, refused, command, section, changes, words):
    before = (finished / "run.json").read_bytes()
    edit(finished, section, **changes)
    assert words in refused(command, finished)
    assert (finished / "run.json").read_bytes() == before


@pytest.mark.parametrize("command", ["resume", "evaluate"])
def test_another_seed_is_refused(finished, refused, command):
    config = finished / "config.yaml"
    config.write_text(config.read_text().replace("seed: 0", "seed: 1"))
    assert "config.yaml: seed is 1, but the run was trained with 0" in refused(command, finished)


def test_a_changed_evaluation_is_done_again(finished):
    before = Run.open(finished).metrics
    edit(finished, None, evaluation_pairs=4)
    runner.evaluate(finished)
    assert "evaluated" in Run.open(finished).facts
    (finished / "metrics.json").unlink()
    assert runner.resume(finished)["equivariance_error"] != before["equivariance_error"]
    assert "evaluated" not in Run.open(finished).facts


def test_metrics_are_those_declared_in_their_order(finished):
    declared = [metric.key for metric in known("torus").metrics]
    metrics, facts = Run.open(finished).metrics, Run.open(finished).facts
    assert list(metrics) == [key for key in declared if key in metrics] and {"steps", "seconds"} <= metrics.keys()
    assert list(facts["metrics"]) == declared and facts["metrics"]["seconds"]["unit"] == "s"


def test_photographs_that_are_split_in_another_way_are_refused(niso, small, images, refused, tmp_path):
    """Every fifth photograph is held out: one more moves the others."""
    folder = Path(shutil.copytree(images, tmp_path / "photographs"))
    words = [word if word != str(images) else str(folder) for word in small]
    assert niso("run", "torus", *words, "--out", tmp_path / "run").status == 0
    Image.open(folder / "0.png").rotate(90).save(folder / "00.png")
    assert "its data has changed since it was trained" in refused("evaluate", tmp_path / "run")
    (folder / "00.png").unlink()
    assert niso("evaluate", tmp_path / "run").status == 0
    Image.open(folder / "0.png").rotate(90).save(folder / "0.png")
    assert "its data has changed since it was trained" in refused("evaluate", tmp_path / "run")


@pytest.mark.parametrize("command", ["resume", "evaluate"])
def test_a_run_without_its_facts_says_that_its_data_cannot_be_compared(finished, niso, command):
    (finished / "run.json").unlink()
    if command == "resume":
        (finished / "metrics.json").unlink()
    with warnings.catch_warnings():
        warnings.simplefilter("default")
        result = niso(command, finished)
    assert result.status == 0 and "its data is what it was trained on cannot be seen" in result.err
    assert result.err.count("niso: warning: ") == 1
    assert "warning" not in niso(command, finished).err


def test_a_run_that_is_to_be_trained_further_is_not_loaded(finished):
    edit(finished, steps=6)
    (finished / "metrics.json").unlink()
    with pytest.raises(InputError, match="not trained to its end"):
        load(finished)


def test_names_that_are_no_text_are_one_line(refused, niso, small, tmp_path):
    assert niso("run", "torus", *small, "--out", tmp_path / "a\u00a0narrow\u202fspace").status == 0
    assert "holds bytes that are no text: rename" in refused("run", "torus", *small, "--out", f"{tmp_path}/o\udce9")
