"""What occlusion leaves of homNIST: a network trained with labels on covered digits under homographies.

It learns from what the pre-trained methods never see, labels of transformed digits, so that its accuracy is about the
most that they can reach. The encoder of the preset `small` and a perceptron on its latents, trained together; tested as
`accuracy_covered` and its validation twin are.

Run: python -m studies.occlusion_ceiling --data-dir MNIST
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

import tyro

from benchmarks.common import Named, table, write

import torch  # isort: skip  # after benchmarks.common, which sets how its threads wait
from torch import Tensor

from niso.config import Hardware, Optimisation
from niso.data.squares import signed
from niso.data.transformed import labelled
from niso.experiments import partial_views
from niso.experiments.homnist.experiment import Homnist
from niso.experiments.homnist.presets import SMALL
from niso.experiments.homnist.sampling import make_occlusion
from niso.networks import ClassificationObjective
from niso.training.loop import Phase, train
from niso.training.processes import make_fabric
from niso.training.run import Run


@dataclass(frozen=True)
class Ceiling(Named):
    """Options."""

    data_dir: Path | None = None
    """Folder of MNIST's files."""
    occlusion: float = 0.4
    """Largest covered share in training."""
    steps: int = 2_500
    """Optimiser steps."""
    batch_size: int = 64
    """Digits of a step."""


def main(options: Ceiling) -> None:
    """Train, test, print and write."""
    config = replace(SMALL, occlusion=options.occlusion)
    hardware = Hardware(accelerator="cpu")
    fabric = make_fabric(hardware)
    torch.manual_seed(0)
    experiment = Homnist(config, "autoencoder", 0, options.data_dir, fabric.device)
    method, occlusion = experiment.method, make_occlusion(config)
    assert occlusion is not None
    digits, *held_out = experiment.split
    with torch.no_grad():
        experiment.head = method.head(config, method.head_features(signed(digits.images[:64])[:, None]), 10)
    objective = ClassificationObjective(method.model, experiment.head, encode=method.head_features, frozen=False)

    def sample(step: int) -> tuple[Tensor, Tensor]:
        x, classes = labelled(*digits, options.batch_size, experiment.action)
        return occlusion(x), classes

    optimisation = Optimisation(options.steps, options.batch_size, 2e-3, 0.0, 100)
    with TemporaryDirectory() as folder:
        phase = Phase("ceiling", objective, sample, optimisation)
        seconds = train(phase, Run(Path(folder)), fabric, 0, hardware)
    method.model.eval()
    sets = zip(("validation", "test"), held_out, strict=True)
    curves = {name: experiment.accuracy_by_covered_share(part) for name, part in sets}
    covered = {name: partial_views.mean_covered(curve) for name, curve in curves.items()}
    rows = [[name, *curve["y"], covered[name]] for name, curve in curves.items()]
    title = f"Accuracy with labels of transformed digits, {options.steps:,} steps of {options.batch_size}"
    table(title, ["digits", *(f"{share:.0%} covered" for share in partial_views.SHARES), "mean of 10–40 %"], rows)
    shown = replace(options, data_dir=None)  # a path of this machine
    write("occlusion_ceiling", shown, {"seconds": seconds, "accuracy_by_covered_share": curves})


if __name__ == "__main__":
    main(tyro.cli(Ceiling))
