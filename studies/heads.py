"""Invariant heads on one pre-trained homNIST model: what each makes of the same latents.

Run: python -m studies.heads homnist-contrastive --data-dir MNIST
"""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import partial
from hashlib import sha256
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Literal

import tyro

from benchmarks.common import Named, table, write

import torch  # isort: skip  # after benchmarks.common, which sets how its threads wait

from torch import Tensor

import niso
from niso.config import Hardware, Optimisation
from niso.experiments.experiment import Phase
from niso.experiments.homnist.experiment import Homnist
from niso.methods.heads import HEADS
from niso.methods.method import Method
from niso.networks import ClassificationObjective
from niso.training.loop import train
from niso.training.processes import make_fabric
from niso.training.run import Run

METRICS = ("accuracy_val", "accuracy_clean_val", "accuracy", "accuracy_clean")
Schedule = Literal["the model's", "falling", "falling, eightfold batches"]
SCHEDULES: dict[Schedule, Callable[[Optimisation], Optimisation]] = {
    "the model's": lambda head: head,
    "falling": lambda head: replace(head, cosine_steps=None),
    "falling, eightfold batches": lambda head: replace(
        head,
        cosine_steps=None,
        batch_size=8 * head.batch_size,
        steps=head.steps // 8,
        warmup_steps=head.warmup_steps // 8,
    ),
}
"""How heads are trained: as the model's settings have it; with a learning rate that falls to the end; and with such a
rate, on as many examples in an eighth of the steps."""

OfOperator = Literal["frozen", "trained on"]


@dataclass(frozen=True)
class Heads(Named):
    """Options."""

    model: Annotated[str, tyro.conf.Positional] = "homnist-contrastive"
    """Name of a model, or folder of a finished homNIST run with a validation split."""
    data_dir: Path | None = None
    """Folder of MNIST's files."""
    steps: int | None = None
    """Optimiser steps of each head; those of the model's settings by default."""
    heads: tuple[str, ...] = tuple(HEADS)
    """Which heads."""
    schedules: tuple[Schedule, ...] = ("the model's",)
    """How each is trained, see `SCHEDULES`."""
    operators: tuple[OfOperator, ...] = ("frozen",)
    """Whether Φ and M are trained on with the head, as by the released code; the encoder never is."""
    test_digits: int | None = None
    """Test digits; as many as in the model's settings by default."""
    test_copies: int | None = None
    """Homographies of each test digit; as many as in the model's settings by default."""
    precision: str = "bf16-mixed"
    """Of the heads' training."""


def remembered(encode: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    """What encodes a batch that it has seen already from memory: all heads see the same batches."""
    seen: dict[bytes, Tensor] = {}

    def encoded(x: Tensor) -> Tensor:
        key = sha256(x.numpy().tobytes()).digest()
        if key not in seen:
            seen[key] = encode(x)
        return seen[key]

    return encoded


def features_of(method: Method, of_operators: bool) -> Callable[[Tensor], Tensor]:
    """What makes features of observations; with others for each operator, latents are what is remembered."""
    if not of_operators:
        return remembered(method.head_features)
    latents, spectrum = remembered(torch.no_grad()(method.latents)), method.model.spectrum
    return lambda x: spectrum().project(latents(x))


def labelled(experiment: Homnist, step: int) -> tuple[Tensor, ...]:
    """A batch of upright digits with their labels."""
    return experiment.sampling.labelled(augmented=False)


def main(options: Heads) -> None:
    """Train, test, print and write."""
    fitted = niso.load(options.model)
    settings, method = fitted.settings, fitted.method
    own = settings.config
    digits, copies = options.test_digits or own.test_digits, options.test_copies or own.test_copies
    config = replace(own, evaluation_pairs=100, test_digits=digits, test_copies=copies)  # pairs do not depend on heads
    features = features_of(method, "trained on" in options.operators)
    method.head_features = features  # type: ignore[method-assign]  # of this object
    pretrained = deepcopy(method.model.state_dict())
    hardware = Hardware(accelerator="cpu", precision=options.precision)
    fabric = make_fabric(hardware)
    results = {}
    for classifier, schedule, operator in product(options.heads, options.schedules, options.operators):
        torch.manual_seed(0)
        method.model.load_state_dict(pretrained)
        head = replace(config.head, steps=options.steps or config.head.steps)
        changed = replace(config, classifier=classifier, head=SCHEDULES[schedule](head))
        experiment = Homnist(changed, settings.method, 0, options.data_dir, fabric.device)
        experiment.method = method
        *_, phase = experiment.phases()
        if operator == "trained on":
            parts = method.model.spectrum.requires_grad_(), experiment.head, features
            objective = ClassificationObjective(*parts, frozen=False, smoothing=config.label_smoothing)
            phase = Phase("head", objective, partial(labelled, experiment), changed.head)
        with TemporaryDirectory() as folder:
            run = Run(Path(folder))
            seconds = train(phase, run, fabric, 0, hardware)
        metrics = experiment.evaluate().metrics
        several = {schedule: len(options.schedules) > 1, f"Φ and M {operator}": len(options.operators) > 1}
        label = ", ".join([classifier, *(name for name, shown in several.items() if shown)])
        results[label] = {name: metrics[name] for name in (*METRICS, "test_images")} | {"seconds": seconds}
    rows = [[name, *(result[metric] for metric in METRICS)] for name, result in results.items()]
    table(f"Heads of {head.steps:,} steps on {Path(options.model).name}", ["head", *METRICS], rows)
    write("heads", replace(options, data_dir=None), {"heads": results})


if __name__ == "__main__":
    main(tyro.cli(Heads))
