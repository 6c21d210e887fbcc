"""What holds of every experiment: its presets train, a run leaves all its files, in every precision."""

import json
import shutil
import signal
from dataclasses import replace
from pathlib import Path
from typing import get_args, get_type_hints

import pytest
import torch

from niso.config import Hardware, read_yaml, to_yaml
from niso.errors import InputError, Interrupted
from niso.experiments import EXPERIMENTS
from niso.experiments.known import known
from niso.methods.evaluation.latents import INVARIANTS_ROUNDING
from niso.runs import runner
from niso.training import checkpoint, loop
from niso.training.loop import train
from niso.training.processes import make_fabric
from niso.training.run import Run

PRESETS = [(name, preset) for name in EXPERIMENTS for preset in EXPERIMENTS.find(name).presets]
PRECISIONS = get_args(get_type_hints(Hardware)["precision"])
HEADS = [
    ("homnist", "nft"),
    ("pairs", "nft"),
    ("shapes", "niso"),
    ("shapes", "nft"),
    ("pose", "niso"),
    ("pose", "vit"),
]
"""Of homnist and pairs, heads are trained by the same function."""
HEAD = "checkpoints/head.safetensors"
WITH_METHODS = [name for name in EXPERIMENTS if len(EXPERIMENTS.find(name).methods()) > 1]


@pytest.mark.slow
@pytest.mark.parametrize(("experiment", "preset"), PRESETS)
def test_every_preset_is_built_and_trains_a_step(make_tiny, tmp_path, experiment, preset):
    built = make_tiny(experiment, preset)
    run, fabric = Run.create(tmp_path / "run", {}), make_fabric(Hardware(accelerator="cpu"))
    for phase in built.phases():
        phase = replace(phase, optimisation=replace(phase.optimisation, steps=1))
        before = [parameter.detach().clone() for parameter in phase.objective.parameters()]
        train(phase, run, fabric)
        after = list(phase.objective.parameters())
        assert all(parameter.isfinite().all() for parameter in after)
        assert not all(torch.equal(x, y) for x, y in zip(before, after, strict=True))


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("experiment", EXPERIMENTS)
def test_a_run_goes_to_its_end_in_every_precision(finished_once, experiment, precision):
    run = finished_once(experiment, precision=precision)
    metrics = json.loads((run / "metrics.json").read_text())
    keys = [metric.key for metric in known(experiment).metrics]
    assert list(metrics) == [key for key in keys if key in metrics]  # described, in this order
    assert metrics["steps"] >= 3 and metrics["seconds"] > 0
    assert all(isinstance(value, float | int) and value == value for value in metrics.values())
    for name in ("config.yaml", "run.json", "log.csv", "report.html", "figures/captions.json", "checkpoints"):
        assert (run / name).exists(), name
    assert list((run / "tensorboard").rglob("events*")) and not list(run.rglob("*.tmp"))
    assert [(path.name, text) for path, text in Run.open(run).pictures] == [("blank.png", "Nothing is drawn here.")]
    facts = json.loads((run / "run.json").read_text())
    assert (facts["experiment"], facts["preset"], facts["method"]) == (experiment, "quick", "niso")
    for file in (run / "checkpoints").glob("*.safetensors"):
        tensors, about = checkpoint.load(file)
        assert about["step"] == 3
        dtypes = {value.dtype for value in tensors.values() if value.is_floating_point()}
        assert torch.float64 in dtypes if precision == "64-true" else torch.float64 not in dtypes


@pytest.mark.parametrize(("experiment", "method", "steps"), [*((*words, 2) for words in HEADS), ("homnist", "niso", 0)])
def test_a_head_that_is_interrupted_ends_as_if_nothing_had_happened(
    finished_once, tmp_path, monkeypatch, heeded, experiment, method, steps
):
    whole = finished_once(experiment, method)
    again = Path(shutil.copytree(whole, tmp_path / "again"))
    (again / "metrics.json").unlink()
    (again / HEAD).unlink()
    if steps:
        with monkeypatch.context() as patch, pytest.raises(Interrupted, match=f"head: .* saved at step {steps} of 3"):
            patch.setattr(loop, "set_learning_rates", signalling(loop.set_learning_rates, steps))
            runner.resume(again)
    metrics, before = runner.resume(again), Run.open(whole).metrics
    assert list(metrics) == list(before)
    assert all(key.startswith("seconds") for key in metrics if metrics[key] != before[key])
    first, second = (checkpoint.load(run / HEAD)[0] for run in (whole, again))
    assert first.keys() == second.keys() and all(torch.equal(first[name], second[name]) for name in first)


def signalling(set_rates, steps):
    """The learning rates of a step, of which one sends a signal to end after it."""
    calls = []

    def call(*words):
        calls.append(1)
        if len(calls) == steps:
            signal.raise_signal(signal.SIGTERM)
        return set_rates(*words)

    return call


def test_a_lengthened_run_that_is_interrupted_does_not_take_the_old_head(finished_once, tmp_path, monkeypatch):
    """The head is of the encoder that was trained for fewer steps, and the checkpoint has that encoder, too."""
    runs = [Path(shutil.copytree(finished_once("homnist"), tmp_path / name)) for name in ("whole", "cut")]
    for run in runs:
        settings = read_yaml(run / "config.yaml")
        settings["config"]["training"]["steps"] = 5
        (run / "config.yaml").write_text(to_yaml(settings))
    whole = runner.resume(runs[0])
    with monkeypatch.context() as patch, pytest.raises(RuntimeError, match="cut"):
        patch.setattr(runner, "train", cut_after(runner.train, "pretrain"))
        runner.resume(runs[1])
    again = runner.resume(runs[1])
    assert {key: value for key, value in again.items() if "seconds" not in key} == {
        key: value for key, value in whole.items() if "seconds" not in key
    }


def cut_after(train, phase):
    """Training that ends a command after a phase, as a signal does."""

    def call(*words):
        seconds = train(*words)
        if words[0].name == phase:
            raise RuntimeError("cut")
        return seconds

    return call


@pytest.mark.parametrize("experiment", EXPERIMENTS)
def test_precision_hardly_changes_what_comes_out(finished_once, experiment):
    """After three steps metrics agree roughly: Adam's first steps have the signs of gradients, however small."""
    exact, single, half = (
        Run.open(finished_once(experiment, precision=precision)).metrics
        for precision in ("64-true", "32-true", "bf16-mixed")
    )
    assert exact.keys() == single.keys() == half.keys() - {INVARIANTS_ROUNDING.key}
    assert half.get(INVARIANTS_ROUNDING.key, 0) >= 0
    errors = [key for key in exact if key.startswith(("equivariance_error", "reconstruction_error"))]
    for key in errors:
        assert single[key] == pytest.approx(exact[key], rel=0.1, abs=1e-3), key
        assert half[key] == pytest.approx(exact[key], rel=0.2, abs=1e-2), key


@pytest.fixture(scope="module", params=EXPERIMENTS)
def untrained(request, make_tiny):
    """An experiment whose phases are built but not trained."""
    built = make_tiny(request.param)
    list(built.phases())
    return built


def test_an_evaluation_neither_needs_nor_moves_the_global_generators(untrained):
    results = []
    for seed in (1, 2):
        torch.manual_seed(seed)
        state = torch.get_rng_state()
        results.append(untrained.evaluate())
        assert torch.equal(torch.get_rng_state(), state)
    assert results[0].metrics == results[1].metrics and results[0].curves == results[1].curves
    assert json.loads(json.dumps(results[0].curves)) == results[0].curves
    assert all(isinstance(tensor, torch.Tensor) for part in results[0].tensors.values() for tensor in part.values())


@pytest.mark.parametrize("experiment", EXPERIMENTS)
def test_metrics_are_described_once(experiment):
    kind = EXPERIMENTS.find(experiment)
    described = [metric.key for metric in known(experiment).metrics]
    assert len(set(described)) == len(described)
    assert all(metric.text and metric.better in ("higher", "lower", None) for metric in kind.metrics)
    assert all(targets.keys() <= set(described) for targets in kind.targets.values())
    assert set(kind.targets) <= set(kind.presets)


@pytest.mark.parametrize("experiment", WITH_METHODS)
def test_published_values_are_of_known_methods_and_metrics(experiment):
    kind = EXPERIMENTS.find(experiment)
    methods = [entry.method for entry in kind.published if entry.method]
    assert set(methods) <= set(kind.methods())
    for entry in kind.published:
        assert entry.name and entry.source
        assert entry.values and entry.values.keys() <= {metric.key for metric in kind.metrics}


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_experiments_are_found_and_say_what_they_are(name):
    kind = EXPERIMENTS.find(name)
    assert kind.name == name and kind.summary.endswith(".") and next(iter(kind.presets)) == "quick"
    assert all(isinstance(config, kind.config_class) for config in kind.presets.values())
    for preset, own in kind.method_settings.items():
        assert set(own) <= set(kind.methods())
        assert all(kind.settings_of(preset, method) != kind.presets[preset] for method in own)
    assert kind.methods()[0] == "niso" and set(kind.available(kind.presets["quick"])) <= set(kind.methods())


def test_an_unknown_experiment_is_named():
    with pytest.raises(InputError, match="unknown experiment 'tours'; did you mean torus"):
        EXPERIMENTS.find("tours")


def test_a_run_keeps_its_choice(tiny_settings, tmp_path, monkeypatch):
    facts = {"precision": "bf16-mixed", "compile": False, "threads": 1}
    seen = []

    def fastest(objective, sampler, optimisation, hardware, device):
        seen.append(hardware)
        return replace(hardware, precision="bf16-mixed"), facts

    monkeypatch.setattr(runner, "choose", fastest)
    settings, out = tiny_settings("homnist"), tmp_path / "run"
    runner.run(replace(settings, hardware=replace(settings.hardware, speed="auto")), out, report=False)
    run = Run.open(out)
    assert len(seen) == 1 and run.facts["speed"] == facts
    assert run.settings["hardware"]["precision"] == run.facts["precision"] == "bf16-mixed"
    assert {"start", "data", "speed", "training", "evaluation"} <= run.facts["times"].keys()
    values = read_yaml(out / "config.yaml")
    values["config"]["training"]["steps"] += 1
    (out / "config.yaml").write_text(to_yaml(values))
    runner.resume(out)
    resumed = Run.open(out)
    assert len(seen) == 1 and resumed.settings["hardware"]["precision"] == "bf16-mixed"
    assert "earlier" not in resumed.facts  # it was trained nowhere else
