"""Maps of shapes that a run trains on, and those that its metrics are means over."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple

import torch
from jaxtyping import Int
from torch import Tensor

from niso.collective import local_part
from niso.experiments.shapes.maps import ShapeMaps
from niso.experiments.shapes.presets import ShapesConfig
from niso.experiments.shapes.split import Split
from niso.geometry.mobius import MobiusTransformations
from niso.methods.method import Batches
from niso.random import EVALUATION_SEED, step_generator, step_seed
from niso.training.ahead import Ahead
from niso.training.loop import Sampler

BATCH = 64
"""Maps encoded at once where nothing is trained."""


class Views(NamedTuple):
    """Which maps a batch has.

    Attributes:
        shape: (batch,) numbers of shapes.
        variants: for each view, (batch,) numbers of the shapes' variants; 0 is the base shape.
    """

    shape: Int[Tensor, " batch"]
    variants: tuple[Int[Tensor, " batch"], ...]


class ShapeSampling:
    """Random shapes and variants for every step, and samplers of what networks are trained on.

    Args:
        maps: of all shapes.
        split: those to train on, and those to test on.
        group: number of consecutive shapes of pre-training that share a random T; None for pairs of variants.
    """

    def __init__(self, config: ShapesConfig, seed: int, maps: ShapeMaps, split: Split, group: int | None) -> None:
        self.config, self.seed, self.maps, self.split, self.group = config, seed, maps, split, group
        self.variants = maps.shapes.variants
        self.labels = maps.shapes.labels.to(maps.device)
        self.action = MobiusTransformations(config.mobius, maps.shapes.layout)

    # Shapes and variants of a step: this process's part

    def pairs_at(self, step: int, stream: str = "pairs") -> Views:
        """Pairs of variants of training shapes, or the first of each where groups share a T."""
        generator, size = step_generator(self.seed, step, stream), self.config.training.batch_size
        shape = self._shapes(size, generator)
        is_base = torch.rand(size, generator=generator) < self.config.base_share
        first = torch.randint(1, self.variants, (size,), generator=generator) * ~is_base
        second = torch.randint(self.variants, (size,), generator=generator)
        views = (first, second) if self.group is None else (first,)
        return Views(local_part(shape), tuple(map(local_part, views)))

    def labelled_at(self, step: int) -> Views:
        """Training shapes for the head."""
        generator, size = step_generator(self.seed, step, "labelled"), self.config.head.batch_size
        shape = self._shapes(size, generator)
        variant = torch.randint(self.variants, (size,), generator=generator) * (self.config.labelled == "all")
        return Views(local_part(shape), (local_part(variant),))

    def _shapes(self, size: int, generator: torch.Generator) -> Int[Tensor, " batch"]:
        return self.split.train[torch.randint(len(self.split.train), (size,), generator=generator)]

    # Samplers

    def related(self, steps: int, stream: str = "pairs") -> Sampler:
        """A sampler of pairs (ψ, Tψ), of variants of a shape; or in groups that share a random T, of any shapes.

        Args:
            stream: of the random numbers, see `step_seed`.
        """
        source, group = self._maps_of(partial(self.pairs_at, stream=stream), steps), self.group
        if group is None:
            return source

        def sample(step: int) -> tuple[Tensor, ...]:
            (x,) = source(step)
            t = local_part(self.action.sample(self.config.training.batch_size // group))
            t = t.repeat_interleave(group, dim=0)
            return x, self.action.act(x, t)

        return sample

    def labelled(self, augmented: bool) -> Sampler:
        """A sampler of maps and classes for the head, under random Möbius transformations if it is `augmented`."""
        source, size = self._maps_of(self.labelled_at, self.config.head.steps), self.config.head.batch_size

        def sample(step: int) -> tuple[Tensor, ...]:
            (x,) = source(step)
            if augmented:
                x = self.action.act(x, local_part(self.action.sample(size)))
            return x, self.labels[self.labelled_at(step).shape.to(x.device, non_blocking=True)]

        return sample

    def _maps_of(self, views: Callable[[int], Views], steps: int) -> Sampler:
        """A sampler of these maps; those that are not on the device are read ahead of the steps."""

        def read(step: int) -> tuple[Tensor, ...]:
            shape, variants = views(step)
            return tuple(self.maps.read(shape, variant) for variant in variants)

        source = read if self.maps.resident is not None else Ahead(read, steps)
        return lambda step: tuple(self.maps.scaled(view) for view in source(step))

    # Maps that are encoded once

    def examples(self) -> Batches:
        """All maps of training shapes with their labels, shape by shape."""
        for part in torch.arange(len(self.split.train) * self.variants).split(BATCH):
            shape = self.split.train[part // self.variants]
            yield self.maps(shape, part % self.variants), self.labels[shape.to(self.labels.device)]

    def chosen(self, step: int) -> Int[Tensor, " batch"]:
        """Which of `examples` a step of the head has."""
        shape, (variant,) = self.labelled_at(step)
        return (self.split.train == shape[:, None]).int().argmax(1) * self.variants + variant

    # Pairs that metrics are means over

    def pairs(
        self, members: Int[Tensor, " shapes"], count: int, seed: int = EVALUATION_SEED
    ) -> Iterator[tuple[Tensor, ...]]:
        """Batches of `count` pairs of different variants of one shape each."""
        generator = torch.Generator().manual_seed(seed)
        members = members[torch.randperm(len(members), generator=generator)]  # the first few are of several classes
        shape = members[torch.arange(count) % len(members)]
        first = torch.randint(self.variants, (count,), generator=generator)
        second = (first + torch.randint(1, self.variants, (count,), generator=generator)) % self.variants
        for s, i, j in zip(shape.split(BATCH), first.split(BATCH), second.split(BATCH), strict=True):
            yield self.maps(s, i), self.maps(s, j)

    def train_pairs(self, count: int) -> Iterator[tuple[Tensor, ...]]:
        """Random variants of training shapes, the same in all processes."""
        return self.pairs(self.split.train, count, step_seed(self.seed, 0, "maps"))

    def warped(self, count: int) -> Iterator[tuple[Tensor, ...]]:
        """Batches of held-out base shapes ψ, ψ under a random Möbius transformation, others, and these under it."""
        generator = torch.Generator().manual_seed(EVALUATION_SEED)
        transformations = self.action.sample(count, generator)
        index = torch.arange(count)
        members = self.split.test[torch.randperm(len(self.split.test), generator=generator)]
        shape, other = (members[(index + offset) % len(members)] for offset in (0, 1))
        base = torch.zeros(BATCH, dtype=torch.long)
        for s, o, t in zip(shape.split(BATCH), other.split(BATCH), transformations.split(BATCH), strict=True):
            x, y = self.maps(s, base[: len(s)]), self.maps(o, base[: len(s)])
            yield x, self.action.act(x, t), y, self.action.act(y, t)
