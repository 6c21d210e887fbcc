"""Camera poses from frozen features of pre-trained models, tiny and untrained here."""

import json
import math
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from niso.cli.run import parse_run
from niso.config import Hardware, Optimisation
from niso.experiments.pose.experiment import Pose
from niso.experiments.pose.predictors import FeaturePredictor
from niso.experiments.pose.presets import PRESETS
from niso.networks.two_view import TwoViewConfig
from niso.training import checkpoint
from niso.training.loop import train
from niso.training.processes import make_fabric
from niso.training.run import Run

CPU = torch.device("cpu")
TINY = replace(
    PRESETS["quick"],
    size=8,
    transformer=TwoViewConfig(patch=4, channels=8, heads=2, encoder_blocks=1, decoder_blocks=1),
    head=Optimisation(steps=2, batch_size=8, learning_rate=1e-2),
)
FLAGS = (
    "--size 8 --head.steps 3 --head.batch-size 8 --transformer.patch 4 --transformer.channels 8 --transformer.heads 2 "
    "--transformer.decoder-blocks 1"
).split()


@pytest.fixture(params=["dinov2", "beit"])
def method(request) -> str:
    return request.param


@pytest.fixture
def model(write_pretrained, tmp_path, method) -> Path:
    return write_pretrained(tmp_path / method, method)


@pytest.fixture
def make(prepared_frames, model, method) -> Callable[..., Pose]:
    def make(**changes: object) -> Pose:
        torch.manual_seed(0)
        return Pose(replace(TINY, **{method: str(model)}, **changes), method, 0, prepared_frames, CPU)

    return make


def test_a_head_is_trained_on_frozen_features(make, tmp_path):
    experiment = make()
    (phase,) = experiment.phases()
    assert phase.name == "head" and isinstance(experiment.predictor, FeaturePredictor)
    states = []
    for _ in range(2):
        states.append({name: value.clone() for name, value in phase.objective.state_dict().items()})
        run, fabric = Run.create(tmp_path / f"run{len(states)}", {}), make_fabric(Hardware(accelerator="cpu"))
        train(phase.objective, phase.sampler, phase.optimisation, run, fabric, phase.name)
    assert all(name.startswith(("predictor.decoder.", "predictor.orientation")) for name in states[0])
    assert any(not torch.equal(value, states[1][name]) for name, value in states[0].items())
    figures = experiment.evaluate()
    assert all(math.isfinite(value) for value in figures.values())
    assert figures.keys() < Pose.metric_descriptions.keys()
    assert not any(name.startswith(("equivariance", "reconstruction")) for name in figures)


def test_features_are_those_of_the_model_and_looked_up_as_they_are_computed(make):
    batches = []
    for memory in (1.0, 0.0):
        experiment = make(memory=memory)
        (phase,) = experiment.phases()
        batches.append(phase.sampler(1))
    for one, other in zip(*batches, strict=True):
        torch.testing.assert_close(one, other, atol=1e-4, rtol=1e-4)
    pairs = experiment.head_pairs(1)
    expected = experiment.pretrained(experiment.frames(pairs.sequence, pairs.first))
    torch.testing.assert_close(batches[0][0], expected, atol=1e-4, rtol=1e-4)


def test_a_run_resumed_in_its_head_is_the_same(niso, prepared_frames, model, method, tmp_path):
    whole, again = tmp_path / "whole", tmp_path / "again"
    words = [*FLAGS, "--data-dir", prepared_frames, "--method", method, f"--{method}", model]
    status, _, err = niso("run", "pose", *words, "--out", whole)
    assert status == 0, err
    shutil.copytree(whole, again)
    for name in ("metrics.json", "checkpoints/head.safetensors"):
        (again / name).unlink()
    assert niso("resume", again).status == 0
    first, second = (checkpoint.load(run / "checkpoints" / "head.safetensors")[0] for run in (whole, again))
    assert first.keys() == second.keys() and all(torch.equal(first[name], second[name]) for name in first)
    figures = [json.loads((run / "metrics.json").read_text()) for run in (whole, again)]
    assert {key for key in figures[0] if figures[0][key] != figures[1][key]} <= {"seconds_head", "seconds"}


def test_all_methods_are_those_that_have_what_they_need():
    without = parse_run(["pose", "--methods", "all"])
    assert {"niso", "vit", "constant-motion"} <= set(without.methods) and not {"dinov2", "beit"} & set(without.methods)
    assert without.out == Path("runs/pose-quick-all-seed0")
    assert set(parse_run(["pose", "--methods", "all", "--beit", "x"]).methods) - set(without.methods) == {"beit"}


def test_without_a_model_it_is_asked_for(refused, prepared_frames, tmp_path):
    words = ["run", "pose", *FLAGS, "--data-dir", prepared_frames, "--out", tmp_path / "run"]
    assert "the method beit needs --beit, the folder of a pre-trained model" in refused(*words, "--method", "beit")
    pytest.importorskip("transformers")
    message = refused(*words, "--method", "dinov2", "--dinov2", tmp_path / "nowhere")
    assert "nowhere is no folder" in message and "--download" in message
    assert not (tmp_path / "run").exists()
