"""Camera poses from frozen features of pre-trained models, tiny and untrained here."""

import math
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from niso.cli.run import parse_run
from niso.config import Hardware
from niso.errors import InputError
from niso.experiments.pose.experiment import Pose
from niso.experiments.pose.predictors.pretrained import FeaturePredictor
from niso.runs import runner
from niso.training import checkpoint
from niso.training.loop import train
from niso.training.processes import make_fabric
from niso.training.run import Run


@pytest.fixture(params=["dinov2", "beit"])
def method(request) -> str:
    return request.param


@pytest.fixture
def model(write_pretrained, tmp_path, method) -> Path:
    return write_pretrained(tmp_path / method, method)


@pytest.fixture
def make_model(make, model, method) -> Callable[..., Pose]:
    return lambda **changes: make(method, **{method: str(model)}, **changes)


def test_a_head_is_trained_on_frozen_features(make_model, tmp_path):
    experiment = make_model()
    (phase,) = experiment.phases()
    assert phase.name == "head" and isinstance(experiment.predictor, FeaturePredictor)
    states = []
    for _ in range(2):
        states.append({name: value.clone() for name, value in phase.objective.state_dict().items()})
        run, fabric = Run.create(tmp_path / f"run{len(states)}", {}), make_fabric(Hardware(accelerator="cpu"))
        train(phase, run, fabric)
    assert all(name.startswith(("predictor.decoder.", "predictor.orientation")) for name in states[0])
    assert any(not torch.equal(value, states[1][name]) for name, value in states[0].items())
    metrics = experiment.evaluate().metrics
    assert all(math.isfinite(value) for value in metrics.values())
    assert metrics.keys() < {metric.key for metric in Pose.metrics}
    assert not any(name.startswith(("equivariance", "reconstruction")) for name in metrics)


def test_features_are_those_of_the_model_and_looked_up_as_they_are_computed(make_model):
    batches = []
    for memory in (1.0, 0.0):
        experiment = make_model(memory=memory)
        (phase,) = experiment.phases()
        batches.append(phase.sampler(1))
    for one, other in zip(*batches, strict=True):
        torch.testing.assert_close(one, other, atol=1e-4, rtol=1e-4)
    pairs = experiment.sampling.head_pairs(1)
    expected = experiment.predictor.features(experiment.frames(pairs.sequence, pairs.first))
    torch.testing.assert_close(batches[0][0], expected, atol=1e-4, rtol=1e-4)


def test_a_run_resumed_in_its_head_is_the_same(settings, model, method, tmp_path):
    whole, again = tmp_path / "whole", tmp_path / "again"
    before = runner.run(settings(method, **{method: str(model)}), whole)
    shutil.copytree(whole, again)
    for name in ("metrics.json", "checkpoints/head.safetensors"):
        (again / name).unlink()
    after = runner.resume(again)
    first, second = (checkpoint.load(run / "checkpoints" / "head.safetensors")[0] for run in (whole, again))
    assert first.keys() == second.keys() and all(torch.equal(first[name], second[name]) for name in first)
    assert {key for key in before if before[key] != after[key]} <= {"seconds_head", "seconds", "seconds_wall"}


def test_all_methods_are_those_that_have_what_they_need():
    without = parse_run(["pose", "--methods", "all"])
    assert {"niso", "vit", "constant-motion"} <= set(without.methods) and not {"dinov2", "beit"} & set(without.methods)
    assert without.out == Path("runs/pose-quick-all-seed0")
    assert set(parse_run(["pose", "--methods", "all", "--beit", "x"]).methods) - set(without.methods) == {"beit"}


def test_without_a_model_it_is_asked_for(settings, tmp_path):
    with pytest.raises(InputError, match="the method beit needs --beit, the folder of a pre-trained model"):
        runner.run(settings("beit"), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_missing_model_is_named(settings, tmp_path):
    pytest.importorskip("transformers")
    with pytest.raises(InputError, match=r"nowhere is no folder.*--download"):
        runner.run(settings("dinov2", dinov2=str(tmp_path / "nowhere")), tmp_path / "run")
    assert not (tmp_path / "run").exists()
