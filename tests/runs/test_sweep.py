"""Several seeds in one folder: equal to runs by themselves, resumed, withdrawn, and told apart from a run."""

import json
import math
import os
import shutil
import signal
from dataclasses import replace

import pytest
import torch
import yaml

from niso.experiments.homnist.presets import PRESETS
from niso.experiments.settings import Settings
from niso.objective import IsometryObjective
from niso.runs import runner
from niso.runs.parallel import Job, create
from niso.runs.sweep import _differing
from niso.training.run import Run

TORUS = ("run", "torus")


@pytest.fixture
def sweep(trained_sweep, tmp_path):
    """A copy of a finished sweep of seeds 4 and 5."""
    return shutil.copytree(trained_sweep, tmp_path / "sweep")


def test_seeds_are_runs_by_themselves(niso, small, sweep, tmp_path, weights):
    assert sorted(path.name for path in sweep.iterdir()) == ["report.html", "seed4", "seed5", "sweep.yaml"]
    assert niso(*TORUS, *small, "--seed", 5, "--out", tmp_path / "alone").status == 0
    alone, one = weights(tmp_path / "alone"), weights(sweep / "seed5")
    assert all(torch.equal(alone[name], one[name]) for name in alone)
    assert Run(sweep / "seed5").settings == Run(tmp_path / "alone").settings


def test_results_and_report_at_the_end(niso, sweep, tmp_path):
    status, out, _ = niso("resume", sweep)
    assert status == 0
    values = [json.loads((sweep / f"seed{seed}" / "metrics.json").read_text())["eigenspace_energy"] for seed in (4, 5)]
    assert out.startswith("quick · niso, seeds 4, 5\neigenspace_energy ") and " ± " in out
    mean = float(out.split("eigenspace_energy")[1].split("±")[0])
    assert mean == pytest.approx(sum(values) / 2, abs=1e-2)
    assert out.endswith(f"report: {sweep / 'report.html'}\n")
    before = (sweep / "report.html").read_bytes()
    (sweep / "report.html").unlink()
    assert niso("report", sweep).status == 0
    assert (sweep / "report.html").read_bytes() == before
    assert niso("record", sweep, "--to", tmp_path / "results").status == 0
    assert len(list((tmp_path / "results").glob("*.json"))) == 2


@pytest.mark.slow
def test_unfinished_seeds_are_finished_and_the_others_left(niso, sweep):
    kept = (sweep / "seed4" / "metrics.json").stat().st_mtime_ns
    shutil.rmtree(sweep / "seed5")
    assert niso("resume", sweep).status == 0
    assert (sweep / "seed4" / "metrics.json").stat().st_mtime_ns == kept
    facts = Run(sweep / "seed5").facts
    assert (sweep / "seed5" / "metrics.json").is_file() and facts["seed"] == 5


@pytest.mark.slow
def test_an_interruption_goes_on_with_the_whole(niso, small, tmp_path, monkeypatch):
    healthy, calls, out = IsometryObjective.forward, [], tmp_path / "sweep"

    def killing(self, batch, progress):
        calls.append(progress)
        if len(calls) == 5:  # the second seed's second step
            os.kill(os.getpid(), signal.SIGTERM)
        return healthy(self, batch, progress)

    monkeypatch.setattr(IsometryObjective, "forward", killing)
    result = niso(*TORUS, *small, "--seeds", 3, "--out", out)
    assert result.status == 143 and result.out == ""
    assert f"niso: seed 1: pretrain: interrupted and saved at step 2 of 3; `niso resume {out}` " in result.err
    assert (out / "seed0" / "metrics.json").is_file() and not (out / "seed2").exists()
    assert niso("resume", out).status == 0
    assert all((out / f"seed{seed}" / "metrics.json").is_file() for seed in range(3))


@pytest.mark.slow
def test_a_seed_that_diverges_does_not_stop_the_others(niso, small, tmp_path, monkeypatch):
    healthy, calls, out = IsometryObjective.forward, [], tmp_path / "sweep"

    def poisoned(self, batch, progress):
        calls.append(progress)
        terms = healthy(self, batch, progress)
        return terms | {"reconstruction": terms["reconstruction"] * math.nan} if len(calls) == 1 else terms

    monkeypatch.setattr(IsometryObjective, "forward", poisoned)
    result = niso(*TORUS, *small, "--seeds", 2, "--out", out)
    assert (result.status, result.out) == (2, "")
    assert "niso: 1 of 2 seeds failed: seed 0: pretrain: step 1" in result.err
    assert (out / "seed1" / "metrics.json").is_file()
    assert "not finished (no metrics.json): sweep/seed0" in (out / "report.html").read_text()


def test_a_seed_that_is_refused_does_not_stop_the_others(niso, sweep):
    config = sweep / "seed4" / "config.yaml"
    config.write_text(config.read_text().replace("steps: 3\n", "steps: 2\n"))
    status, _, err = niso("resume", sweep)
    assert status == 2 and "seed 5 is finished, 2 of 2\n" in err
    assert "niso: 1 of 2 seeds failed: seed 4: " in err and "asks for 2 steps" in err.splitlines()[-1]


def test_a_damaged_checkpoint_does_not_stop_the_others(niso, sweep):
    for seed in (4, 5):
        (sweep / f"seed{seed}" / "metrics.json").unlink()
    path = sweep / "seed4" / "checkpoints" / "pretrain.safetensors"
    path.write_bytes(path.read_bytes()[:100])
    status, _, err = niso("resume", sweep)
    assert status == 2 and "seed 5 is finished, 2 of 2\n" in err
    assert "niso: 1 of 2 seeds failed: seed 4: checkpoint " in err and "truncated" in err


def test_an_evaluation_with_other_settings_is_of_all_runs(niso, sweep):
    for seed in (4, 5):
        config = sweep / f"seed{seed}" / "config.yaml"
        config.write_text(config.read_text().replace("evaluation_pairs: 2\n", "evaluation_pairs: 3\n"))
    assert niso("evaluate", sweep).status == 0
    assert all(Run(sweep / f"seed{seed}").up_to_date for seed in (4, 5))


@pytest.mark.slow
def test_bad_input_leaves_nothing_behind(refused, niso, tiny, images, tmp_path):
    out = tmp_path / "sweep"
    assert "does not exist" in refused(*TORUS, *tiny, "--seeds", 2, "--data-dir", tmp_path / "none", "--out", out)
    assert not out.exists()
    assert niso(*TORUS, *tiny, "--seeds", 2, "--data-dir", images, "--out", out).status == 0


def test_folders_that_hold_something(refused, small, sweep, finished, tmp_path):
    assert f"niso resume {sweep}" in refused(*TORUS, *small, "--seeds", 2, "--out", sweep)
    assert "is not an empty folder" in refused(*TORUS, *small, "--seeds", 2, "--out", finished)
    assert "is not an empty folder" in refused(*TORUS, *small, "--out", sweep)
    file = tmp_path / "file"
    file.touch()
    assert "cannot write to" in refused(*TORUS, *small, "--seeds", 2, "--out", file / "sweep")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"seeds": 0}, "sweep.yaml is damaged"),
        ({"seeds": "two"}, "sweep.yaml is damaged"),
        ({"seeds": True}, "sweep.yaml is damaged"),
        ({"settings": None}, "sweep.yaml is damaged"),
        ({"settings": {"experiment": "torsu"}}, "sweep.yaml"),
    ],
)
def test_a_damaged_sweep(refused, sweep, change, message):
    path = sweep / "sweep.yaml"
    path.write_text(yaml.safe_dump({**yaml.safe_load(path.read_text()), **change}))
    assert message in refused("resume", sweep)


def test_one_seed_is_a_run(niso, small, tmp_path):
    assert niso(*TORUS, *small, "--seeds", 1, "--out", tmp_path / "run").status == 0
    assert (tmp_path / "run" / "metrics.json").is_file() and not (tmp_path / "run" / "sweep.yaml").exists()


@pytest.mark.slow
def test_the_default_folder_names_the_seeds(niso, small, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert niso(*TORUS, *small, "--seed", 1, "--seeds", 2).status == 0
    assert (tmp_path / "runs" / "torus-quick-niso-seeds1-2" / "seed2" / "metrics.json").is_file()


def test_a_seed_that_was_never_started_is_named(niso, refused, sweep):
    shutil.rmtree(sweep / "seed5")
    status, _, err = niso("report", sweep)
    assert status == 0 and "seed 5 has not been started: train it by `niso resume" in err
    assert "seed 5 has not been started: train it by `niso resume" in refused("evaluate", sweep)
    shutil.rmtree(sweep / "seed4")
    for command in ("report", "evaluate", "record"):
        assert "seed 4 has not been started: train it by `niso resume" in refused(command, sweep)


def test_what_was_read_from_a_file_differs_in_nothing(tmp_path):
    """Lists of a file are tuples of settings."""
    settings = Settings("homnist", "small", PRESETS["small"])
    job = Job("seed 0", settings, tmp_path / "seed0")
    create(job)
    assert _differing(job) == ""
    assert _differing(job._replace(settings=replace(settings, seed=1))) == "seed"
    elsewhere = replace(settings, hardware=replace(settings.hardware, threads=3))
    assert _differing(job._replace(settings=elsewhere)) == ""
    weaker = replace(settings, config=replace(settings.config, action_settings={"deviation": 0.5}))
    assert _differing(job._replace(settings=weaker)) == "config.action_settings"


def test_side_by_side_a_lengthened_run_goes_on_as_by_itself(niso, sweep, threaded):
    config = sweep / "seed4" / "config.yaml"
    settings = yaml.safe_load(config.read_text())
    settings["config"]["training"]["steps"] = 5
    config.write_text(yaml.safe_dump(settings))
    status, _, err = niso("resume", sweep, "--parallel", 2)
    assert status == 0 and "differ in config.training.steps: seed 4 goes by the first" in err
    assert Run.open(sweep / "seed4").metrics["steps"] == 5


@pytest.mark.parametrize("parallel", [1, 2])
@pytest.mark.parametrize("finished", [True, False])
def test_a_damaged_configuration_does_not_stop_the_others(niso, sweep, threaded, parallel, finished):
    (sweep / "seed5" / "metrics.json").unlink()
    if not finished:
        (sweep / "seed4" / "metrics.json").unlink()
    (sweep / "seed4" / "config.yaml").write_text("seed: [")
    status, _, err = niso("resume", sweep, "--parallel", parallel)
    assert status == 2 and (sweep / "seed5" / "metrics.json").exists()
    assert "niso: 1 of 2 seeds failed: seed 4: " in err.splitlines()[-1]
    assert parallel == 2 or f"{sweep / 'seed4' / 'config.yaml'}" in err.splitlines()[-1]  # else its output tells


def test_a_fault_of_one_run_does_not_stop_the_others(niso, sweep, monkeypatch):
    for seed in (4, 5):
        (sweep / f"seed{seed}" / "metrics.json").unlink()
    resume = runner.resume

    def faulty(folder):
        if folder.name == "seed4":
            raise RuntimeError("a fault.\nmore of it")
        return resume(folder)

    monkeypatch.setattr(runner, "resume", faulty)
    status, _, err = niso("resume", sweep)
    assert status == 2 and "seed 5 is finished, 2 of 2\n" in err and "Traceback" in err
    assert err.splitlines()[-1] == "niso: 1 of 2 seeds failed: seed 4: RuntimeError: a fault"
    assert "not finished (no metrics.json): sweep/seed4" in (sweep / "report.html").read_text()
