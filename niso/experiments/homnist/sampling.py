"""Digits that a run trains on, and pairs that its metrics are means over."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from niso.config import Optimisation
from niso.data.evenly import evenly
from niso.data.squares import signed
from niso.data.transformed import labelled, related
from niso.experiments.homnist.classification import BATCH
from niso.experiments.homnist.presets import HomnistConfig
from niso.experiments.homnist.split import Split
from niso.geometry.action import Transformations, powers
from niso.methods.method import Batches
from niso.networks.occlusion import RandomOcclusion
from niso.random import EVALUATION_SEED, step_generator


class DigitSampling:
    """Random digits under random transformations.

    Args:
        split: those to train on, on the training device, and those to test on.
        views: of each digit: ψ, Tψ and, if three, T²ψ.
        group: number of consecutive digits that share a T.
    """

    def __init__(
        self, config: HomnistConfig, seed: int, split: Split, action: Transformations, views: int, group: int
    ) -> None:
        self.config, self.seed, self.action, self.views, self.group = config, seed, action, views, group
        self.train, self.test = split.train, split.test
        self.device = self.train.images.device

    # What a step trains on: this process's part

    def related(self, step: int, optimisation: Optimisation | None = None) -> tuple[Tensor, ...]:
        """Pairs (ψ, Tψ), triplets (ψ, Tψ, T²ψ) or groups of pairs of training digits.

        Args:
            optimisation: that of the phase, pre-training by default.
        """
        size = (optimisation or self.config.training).batch_size
        transformed_first = self.config.first_view == "transformed"
        return related(self.train.images, size, self.action, self.views, self.group, transformed_first)

    def labelled(self, augmented: bool) -> tuple[Tensor, Tensor]:
        """Training digits and their classes for the head, behind occluders where the run is about these.

        Args:
            augmented: under random transformations.
        """
        size = self.config.head.batch_size
        x, classes = labelled(self.train.images, self.train.labels, size, self.action if augmented else None)
        occlusion = make_occlusion(self.config)
        return x if occlusion is None else occlusion(x), classes

    def examples(self) -> Batches:
        """All training digits, upright, with their classes."""
        for images, classes in zip(*(part.split(BATCH) for part in self.train), strict=True):
            yield signed(images)[:, None], classes

    # Pairs: the same in all processes

    def train_pairs(self, count: int) -> Iterator[tuple[Tensor, Tensor]]:
        """Random training digits, and the same under random transformations."""
        generator = step_generator(self.seed, 0, "maps")
        index = torch.randint(len(self.train.images), (count,), generator=generator)
        transformations = self.action.sample(count, generator)
        for part, t in zip(index.split(BATCH), transformations.split(BATCH), strict=True):
            x = signed(self.train.images[part.to(self.device)])[:, None]
            yield x, self.action.act(x, t)

    def held_out(self, count: int) -> Iterator[tuple[Tensor, ...]]:
        """Batches of `count` test digits at most, under transformations, and of other digits under the same ones."""
        total = len(self.test.images)
        index = evenly(count, total)
        generator = step_generator(EVALUATION_SEED, 0)
        transformations = self.action.sample(total, generator)[index]
        for part, t in zip(index.split(BATCH), transformations.split(BATCH), strict=True):
            x, other = self._test(part), self._test((part + 1) % total)
            yield x, self.action.act(x, t), other, self.action.act(other, t)

    def held_out_twice(self, count: int) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
        """Batches of `count` test digits at most, under transformations, and under these twice."""
        index = evenly(count, len(self.test.images))
        generator = step_generator(EVALUATION_SEED, 0, "twice")
        transformations = self.action.sample(len(index), generator)
        for part, t in zip(index.split(BATCH), transformations.split(BATCH), strict=True):
            x = self._test(part)
            once, twice = (self.action.act(x, power) for power in powers(self.action, t, 2))
            yield x, once, twice

    def _test(self, index: Tensor) -> Tensor:
        return signed(self.test.images[index].to(self.device))[:, None]


def make_occlusion(config: HomnistConfig, views: int = 1) -> RandomOcclusion | None:
    """What covers images in training; None where nothing does."""
    return RandomOcclusion(config.occlusion, config.confidence == "given", views) if config.occlusion else None
