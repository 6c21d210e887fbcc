"""Invariant heads on one pre-trained homNIST model: what each makes of the same latents.

Run: python -m studies.heads homnist-contrastive --data-dir MNIST
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, get_args

import tyro

from benchmarks.common import Named, table, write

import torch  # isort: skip  # after benchmarks.common, which sets how its threads wait

import niso
from niso.config import Hardware
from niso.experiments.homnist.experiment import Homnist
from niso.methods.config import Classifier
from niso.training.loop import train
from niso.training.processes import make_fabric
from niso.training.run import Run

METRICS = ("accuracy_val", "accuracy_clean_val", "accuracy", "accuracy_clean")


@dataclass(frozen=True)
class Heads(Named):
    """Options."""

    model: Annotated[str, tyro.conf.Positional] = "homnist-contrastive"
    """Name of a model, or folder of a finished homNIST run with a validation split."""
    data_dir: Path | None = None
    """Folder of MNIST's files."""
    steps: int | None = None
    """Optimiser steps of each head; those of the model's settings by default."""


def main(options: Heads) -> None:
    """Train, test, print and write."""
    fitted = niso.load(options.model)
    settings = fitted.settings
    head = replace(settings.config.head, steps=options.steps or settings.config.head.steps)
    hardware = Hardware(accelerator="cpu", precision="bf16-mixed")
    fabric = make_fabric(hardware)
    results = {}
    for classifier in get_args(Classifier):
        torch.manual_seed(0)
        config = replace(settings.config, classifier=classifier, head=head)
        experiment = Homnist(config, settings.method, 0, options.data_dir, fabric.device)
        experiment.method = fitted.method
        *_, phase = experiment.phases()
        with TemporaryDirectory() as folder:
            run = Run(Path(folder))
            seconds = train(phase, run, fabric, 0, hardware)
        metrics = experiment.evaluate().metrics
        results[classifier] = {name: metrics[name] for name in METRICS} | {"seconds": seconds}
    rows = [[name, *(result[metric] for metric in METRICS)] for name, result in results.items()]
    table(f"Heads of {head.steps:,} steps on {options.model}", ["head", *METRICS], rows)
    write("heads", replace(options, data_dir=None), {"heads": results})


if __name__ == "__main__":
    main(tyro.cli(Heads))
