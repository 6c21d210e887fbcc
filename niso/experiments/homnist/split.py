"""Which digits a run trains, validates and tests on."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import torch
from jaxtyping import Int, UInt8
from torch import Tensor

from niso.data.digits.homnist import GeneratedTestSet, PerturbedDigits, PublishedTestSet
from niso.data.digits.mnist import Digits, pad
from niso.data.evenly import evenly
from niso.errors import InputError
from niso.experiments.homnist.presets import HomnistConfig
from niso.geometry.action import Transformations


class Part(NamedTuple):
    """Padded digits 0 … 255, upright, and their classes."""

    images: UInt8[Tensor, "digits side side"]
    labels: Int[Tensor, " digits"]

    @property
    def side(self) -> int:
        """Height and width of the images."""
        return self.images.shape[-1]

    @property
    def mean(self) -> float:
        """Of all pixels, by which black digits on white are told from white ones on black."""
        return int(self.images.sum(dtype=torch.int64)) / self.images.numel()

    def at(self, index: Tensor) -> Part:
        """Some of them."""
        return Part(self.images[index], self.labels[index])

    def to(self, device: torch.device) -> Part:
        """The same on a device."""
        return Part(self.images.to(device), self.labels.to(device))


class Split(NamedTuple):
    """The digits of a run.

    Attributes:
        train: to pre-train on, and to train the head on.
        validation: training digits that nothing is trained on.
        test: to test on.
    """

    train: Part
    validation: Part
    test: Part


def split(data: Digits, config: HomnistConfig) -> Split:
    """Keep a share of the training digits apart to validate on, and of the test digits those that are asked for."""
    train, test = Part(pad(data.train_images), data.train_labels), Part(pad(data.test_images), data.test_labels)
    apart = torch.zeros(len(train.labels), dtype=torch.bool)
    apart[spread_over_classes(round(config.validation * len(apart)), train.labels)] = True
    if config.test_digits is not None and not config.published:
        test = test.at(spread_over_classes(config.test_digits, test.labels))
    return Split(train.at(~apart), train.at(apart), test)


def copied(parts: Split) -> str:
    """A note on held-out digits that are trained on, too, pixel by pixel; empty where there are none."""
    seen = {hash(image.tobytes()) for image in parts.train.images.cpu().numpy()}
    held_out = {"test": parts.test, "validation": parts.validation}
    counts = {
        name: sum(hash(image.tobytes()) in seen for image in part.images.cpu().numpy())
        for name, part in held_out.items()
    }
    words = [f"{count:,} of {len(held_out[name].labels):,} {name} digits" for name, count in counts.items() if count]
    return f"! copies: {' and '.join(words)} are trained on, too → leave them out of one part" if words else ""


def spread_over_classes(count: int, labels: Int[Tensor, " total"]) -> Int[Tensor, " count"]:
    """Indices of `count` out of all, spread evenly; over each class where classes come in an order by which some
    would else be all, or none, of them. MNIST's first test digits are the easier ones."""
    index = evenly(count, len(labels))
    rest = torch.ones(len(labels), dtype=torch.bool)
    rest[index] = False
    classes = labels.unique()
    if all(torch.equal(labels[part].unique(), classes) for part in (index, rest.nonzero()[:, 0])) or count < 1:
        return index
    return labels.argsort(stable=True)[evenly(count, len(labels))].sort().values


def perturbed_test_digits(
    config: HomnistConfig, test: Part, action: Transformations, data_dir: Path | None
) -> PerturbedDigits:
    """The digits to test on under transformations: generated, or the published set where it is asked for.

    Raises:
        InputError: the published set is not there, or it is another.
    """
    if not config.published:
        return GeneratedTestSet(*test, config.test_copies, action=action)
    files = sorted(data_dir.glob("*.mat")) if data_dir else []
    if len(files) != 1 or config.digits != "mnist" or config.test_digits is not None:
        raise InputError(
            "--published needs MNIST, all its test digits, and one .mat file in --data-dir, where "
            f"{len(files)} are: put homNIST's there, or leave --published out to have a test set generated"
        )
    published = PublishedTestSet(files[0], config.test_copies)
    sizes = [tuple(images.shape[-2:]) for images in (next(published.batches(1)).images, test.images)]
    if sizes[0] != sizes[1]:
        theirs, ours = ("×".join(map(str, size)) for size in sizes)
        raise InputError(f"{files[0]} holds images of {theirs} pixels, not {ours}: give homNIST's own file")
    return published
