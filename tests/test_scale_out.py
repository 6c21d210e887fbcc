"""One run on more or fewer processes, and in more or fewer parts, comes to the same."""

import shutil
from dataclasses import replace

import pytest
import torch
import yaml
from torch import nn

from niso.config import Hardware, Optimisation
from niso.errors import InputError
from niso.training.loop import train
from niso.training.processes import make_fabric
from niso.training.run import Run, read_log

OPTIMISATION = Optimisation(steps=6, batch_size=4, learning_rate=0.01, warmup_steps=2)


class Regression(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.layer, self.sizes = nn.Linear(3, 1), []

    def forward(self, batch, progress):
        self.sizes.append(len(batch[0]))
        return {"loss": (self.layer(batch[0]) - batch[1]).square().mean()}


def trained(folder, parts):
    objective, run = Regression(), Run.create(folder, {})
    fabric = make_fabric(Hardware(accelerator="cpu", precision="64-true"))
    options = replace(OPTIMISATION, accumulation=parts)
    train(objective, lambda step: (torch.randn(4, 3).double(), torch.randn(4, 1).double()), options, run, fabric)
    return objective, [float(row["loss"]) for row in read_log(run.path / "log.csv")]


def test_accumulated_gradients_are_those_of_the_whole_batch(tmp_path):
    whole, losses = trained(tmp_path / "1", 1)
    for parts in (2, 4):
        objective, means = trained(tmp_path / str(parts), parts)
        assert objective.sizes == [4 // parts] * parts * OPTIMISATION.steps
        torch.testing.assert_close(objective.layer.weight, whole.layer.weight, rtol=1e-9, atol=1e-9)
        assert means == pytest.approx(losses, rel=1e-4)


def test_a_batch_that_cannot_be_cut_into_parts(tmp_path):
    with pytest.raises(InputError, match="batch size 4 does not divide among 1 processes in 3 parts each"):
        trained(tmp_path / "run", 3)
    with pytest.raises(ValueError, match="accumulation must be positive"):
        Optimisation(accumulation=0)


def test_resumed_on_another_number_of_processes(start, niso, images, tmp_path, weights):
    """Ten steps in one process, ten more in one or in two of two parts each: in float64, to its rounding."""
    one, two = tmp_path / "one", tmp_path / "two"
    words = "--size 4 --images 3 --pool 50 --evaluation-pairs 2 --spectral-dropout 0".split()
    words += ["--accelerator", "cpu", "--precision", "64-true", "--data-dir", images, "--steps", 10, "--batch-size", 4]
    assert niso("run", "torus", *words, "--out", one).status == 0
    shutil.copytree(one, two)
    for run, devices, parts in ((one, 1, 1), (two, 2, 2)):
        (run / "metrics.json").unlink()
        settings = Run(run).settings
        settings["config"]["training"].update(steps=20, accumulation=parts)
        settings["hardware"]["devices"] = devices
        (run / "config.yaml").write_text(yaml.safe_dump(settings))
    process = start("resume", two)
    _, err = process.communicate(timeout=300)
    assert process.returncode == 0, err
    assert niso("resume", one).status == 0
    first, second = weights(one), weights(two)
    for name in first:
        torch.testing.assert_close(second[name], first[name], rtol=1e-8, atol=1e-8)
