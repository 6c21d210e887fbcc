"""Training in more or fewer parts comes to the same; in more or fewer processes: see test_processes.py."""

from dataclasses import replace

import pytest
import torch
from torch import nn

from niso.config import Hardware, Optimisation
from niso.errors import InputError
from niso.training.log import read_log
from niso.training.loop import Phase, train
from niso.training.processes import make_fabric
from niso.training.run import Run

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
    phase = Phase("pretrain", objective, lambda step: (torch.randn(4, 3).double(), torch.randn(4, 1).double()), options)
    train(phase, run, fabric)
    return objective, [float(row["loss"]) for row in read_log(run.path / "log.csv")]


def test_accumulated_gradients_are_those_of_the_whole_batch(tmp_path):
    whole, losses = trained(tmp_path / "1", 1)
    for parts in (2, 4):
        objective, means = trained(tmp_path / str(parts), parts)
        assert objective.sizes == [4 // parts] * parts * OPTIMISATION.steps
        torch.testing.assert_close(objective.layer.weight, whole.layer.weight, rtol=1e-9, atol=1e-9)
        torch.testing.assert_close(objective.layer.weight.grad, whole.layer.weight.grad)  # Adam hardly sees their size
        assert means == pytest.approx(losses, rel=1e-4)


def test_a_batch_that_cannot_be_cut_into_parts(tmp_path):
    with pytest.raises(InputError, match="batch size 4 does not divide among 1 processes in 3 parts each"):
        trained(tmp_path / "run", 3)
    with pytest.raises(ValueError, match="accumulation must be positive"):
        Optimisation(accumulation=0)
