"""Conformal shape classification: meshes under conformal maps, as functions on the sphere (paper §5.2).

A shape is the heat kernel signature of a mesh, mapped conformally to the sphere; its variants are the same signature on
the maps of meshes that are conformally equivalent. An encoder is pre-trained on pairs of one shape's variants, and
then trained on together with an equivariant head that classifies shapes. Shapes of a class are only roughly conformally
related, so that an exact symmetry helps less than an approximate one that is learned.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from niso.data.shapes.prepared import open_shapes, split
from niso.errors import InputError
from niso.experiments.experiment import Experiment, Phase
from niso.experiments.shapes.maps import ShapeMaps, embedded
from niso.experiments.shapes.methods import METHODS, make_model, train_features_only
from niso.experiments.shapes.presets import PRESETS, ShapesConfig
from niso.experiments.shapes.published import PUBLISHED
from niso.geometry import mobius
from niso.methods import Autoencoder, NeuralFourierTransform
from niso.methods.common import Model, make_head, make_objective, pair_figures
from niso.networks import ClassificationObjective
from niso.results import Metric
from niso.random import local_part, step_seed
from niso.training.ahead import Ahead

if TYPE_CHECKING:
    from niso.report import Picture

BATCH = 64
"""Maps encoded at once where nothing is trained."""
EVALUATION_SEED = 20_241_210
"""Of held-out pairs, the same for every run (the paper's conference date)."""


class Views(NamedTuple):
    """Which maps a batch has.

    Attributes:
        shape: (batch,) numbers of shapes.
        variants: for each view, (batch,) numbers of the shapes' variants; 0 is the base shape.
    """

    shape: Int[Tensor, " batch"]
    variants: tuple[Int[Tensor, " batch"], ...]


class Shapes(Experiment):
    """The shapes experiment, see the module."""

    name = "shapes"
    summary = (
        "Meshes are mapped conformally to the sphere and seen as functions there, their heat kernel signatures. Pairs "
        "of conformal variants of one shape are all that the encoder is pre-trained on, without labels. Encoder, "
        "operator and mass are then trained on together with a head that classifies shapes, and tested on all "
        "variants of shapes that were not trained on. How variants are related, Möbius transformations of the sphere, "
        "no method is told, but the autoencoder's head, which is trained with random ones."
    )
    config_class = ShapesConfig
    presets = PRESETS
    methods: ClassVar[tuple[str, ...]] = tuple(METHODS)
    metrics: ClassVar[tuple[Metric, ...]] = (
        Metric("accuracy", "share of maps of held-out shapes, all variants, classified correctly", "higher"),
        Metric("accuracy_base", "the same, of the base shapes alone", "higher"),
        Metric("equivariance_error", "‖τa − b‖² / ‖b‖² for pairs of variants of held-out shapes, before the encoder is trained on with the head (mean)", "lower"),
        Metric("equivariance_error_centred", "the same, relative to what is left of b without the mean over all maps", "lower"),
        Metric("reconstruction_error", "mean absolute error of D(τ E(ψ)) against Tψ, features lying between −1 and 1; for the autoencoder, of D(E(Tψ)); before the encoder is trained on with the head", "lower"),
        Metric("relative_map_error", "‖τ′a − b‖² / ‖b‖² with the τ′ of another held-out shape under the same random Möbius transformation of the sphere (mean)", "lower"),
        Metric("equivariance_error_tuned", "the equivariance error after the encoder was trained on with the head", "lower"),
        Metric("equivariance_error_tuned_centred", "the same, relative to what is left of b without the mean over all maps", "lower"),
        Metric("classes", "classes of shapes"),
        Metric("test_shapes", "held-out shapes"),
        Metric("test_maps", "maps of held-out shapes"),
        Metric("steps", "optimiser steps of both phases"),
        Metric("seconds", "seconds of training of both phases", "lower", unit="s"),
        Metric("seconds_pretrain", "seconds of pre-training", "lower", unit="s"),
        Metric("seconds_head", "seconds of the training of encoder and head together", "lower", unit="s"),
    )
    published = PUBLISHED

    def __init__(
        self, config: ShapesConfig, method: str, seed: int, data_dir: Path | None, device: torch.device
    ) -> None:
        super().__init__(config, method, seed, data_dir, device)
        self.shapes = open_shapes(data_dir) if data_dir is not None else embedded(config)
        if self.shapes.variants < 2:
            raise InputError(
                f"{self.shapes.folder} has no variants of its shapes, which pairs are made of: prepare some"
            )
        per_class = config.train_shapes + config.test_shapes
        self.train, self.test = split(
            self.shapes.labels, seed, per_class, config.train_shapes, classes=self.shapes.classes
        )
        self.labels = self.shapes.labels.to(device)
        self.maps = ShapeMaps(self.shapes, self.train, config.clip, config.memory, device)
        try:
            model, self.grid = make_model(config, METHODS[method], self.shapes)
        except ValueError as error:
            raise InputError(str(error)) from error
        self.model = model.to(device)
        self.pretrained = self.model
        self.head: nn.Module = nn.Identity()

    def facts(self) -> dict[str, Any]:
        """The split: shapes that were trained and tested on, class by class."""
        names = self.shapes.names
        return {
            "train_shapes": [names[shape] for shape in self.train.tolist()],
            "test_shapes": [names[shape] for shape in self.test.tolist()],
        }

    # Training

    def phases(self) -> Iterator[Phase]:
        config = self.config
        objective = make_objective(config, self.model)
        yield Phase("pretrain", objective, self._sampler(self.pairs_at, config.training.steps), config.training)
        if isinstance(self.model, NeuralFourierTransform) and config.nft_epochs:
            self.model.diagonalise(self.train_maps(config.nft_maps), config.nft_epochs, seed=self.seed)
        self.pretrained = copy.deepcopy(self.model).requires_grad_(False).eval()  # the decoder is not trained on
        examples = self._features(self.model, self.maps(self.train[:BATCH], torch.zeros_like(self.train[:BATCH])))
        self.head = make_head(config, self.model, examples, len(self.shapes.classes)).to(self.device)
        train_features_only(self.model, self.maps(self.train[:2], torch.zeros(2, dtype=torch.long)))
        joint = ClassificationObjective(self.model, self.head, frozen=False)
        yield Phase("head", joint, self._labelled(), config.head)

    def pairs_at(self, step: int) -> Views:
        """Pairs of variants of training shapes: this process's part of a step's batch."""
        generator = torch.Generator().manual_seed(step_seed(self.seed, step, "pairs"))
        size, variants = self.config.training.batch_size, self.shapes.variants
        shape = self.train[torch.randint(len(self.train), (size,), generator=generator)]
        is_base = torch.rand(size, generator=generator) < self.config.base_share
        first = torch.randint(1, variants, (size,), generator=generator) * ~is_base
        second = torch.randint(variants, (size,), generator=generator)
        return Views(local_part(shape), (local_part(first), local_part(second)))

    def labelled_at(self, step: int) -> Views:
        """Training shapes for the head: this process's part of a step's batch."""
        generator = torch.Generator().manual_seed(step_seed(self.seed, step, "labelled"))
        size = self.config.head.batch_size
        shape = self.train[torch.randint(len(self.train), (size,), generator=generator)]
        variant = torch.randint(self.shapes.variants, (size,), generator=generator) * (self.config.labelled == "all")
        return Views(local_part(shape), (local_part(variant),))

    def _sampler(self, views: Callable[[int], Views], steps: int) -> Callable[[int], tuple[Tensor, ...]]:
        def read(step: int) -> tuple[Tensor, ...]:
            shape, variants = views(step)
            return tuple(self.maps.read(shape, variant) for variant in variants)

        source = read if self.maps.resident is not None else Ahead(read, steps)
        return lambda step: tuple(self.maps.scaled(view) for view in source(step))

    def _labelled(self) -> Callable[[int], tuple[Tensor, ...]]:
        source = self._sampler(self.labelled_at, self.config.head.steps)
        augmented = isinstance(self.model, Autoencoder)

        def sample(step: int) -> tuple[Tensor, ...]:
            (x,) = source(step)
            if augmented:
                count = self.config.head.batch_size
                transformations = local_part(mobius.sample(count, self.config.mobius)).to(self.device)
                x = mobius.warp(x, transformations, self.shapes.layout)
            return x, self.labels[self.labelled_at(step).shape.to(self.device)]

        return sample

    def _features(self, model: Model, x: Tensor) -> Float[Tensor, "maps length channels"]:
        """Latents as the head gets them, in the precision of the run, never below float32; without gradients."""
        model.eval()
        with torch.no_grad(), self.autocast():
            latents = model.encode(x)
        return latents.to(torch.promote_types(latents.dtype, torch.float32))

    @torch.no_grad()
    def train_maps(self, count: int) -> Float[Tensor, "count rank rank"]:
        """Maps between random variants of training shapes, the same in all processes."""
        assert not isinstance(self.model, Autoencoder)
        self.model.eval()
        pairs = self.held_out(count, self.train, step_seed(self.seed, 0, "maps"))
        return torch.cat([self.model.map_between(x, tx) for x, tx in pairs])

    # Evaluation

    def held_out(
        self, count: int, members: Int[Tensor, " shapes"] | None = None, seed: int = EVALUATION_SEED
    ) -> Iterator[tuple[Tensor, Tensor]]:
        """Batches of `count` pairs of different variants of one shape each, of held-out shapes by default."""
        members = self.test if members is None else members
        generator = torch.Generator().manual_seed(seed)
        members = members[torch.randperm(len(members), generator=generator)]  # the first few are of several classes
        shape = members[torch.arange(count) % len(members)]
        first = torch.randint(self.shapes.variants, (count,), generator=generator)
        second = (first + torch.randint(1, self.shapes.variants, (count,), generator=generator)) % self.shapes.variants
        for s, i, j in zip(shape.split(BATCH), first.split(BATCH), second.split(BATCH), strict=True):
            yield self.maps(s, i), self.maps(s, j)

    def warped(self, count: int) -> Iterator[tuple[Tensor, Tensor, Tensor, Tensor]]:
        """Batches of held-out base shapes ψ, ψ under a random Möbius transformation, others, and these under it."""
        generator = torch.Generator().manual_seed(EVALUATION_SEED)
        transformations = mobius.sample(count, self.config.mobius, generator)
        index = torch.arange(count)
        members = self.test[torch.randperm(len(self.test), generator=generator)]
        shape, other = (members[(index + offset) % len(members)] for offset in (0, 1))
        base = torch.zeros(BATCH, dtype=torch.long)
        for s, o, t in zip(shape.split(BATCH), other.split(BATCH), transformations.split(BATCH), strict=True):
            x, y = self.maps(s, base[: len(s)]), self.maps(o, base[: len(s)])
            tx, ty = (mobius.warp(view, t.to(self.device), self.shapes.layout) for view in (x, y))
            yield x, tx, y, ty

    @torch.no_grad()
    def evaluate(self) -> dict[str, float]:
        self.model.eval()
        self.head.eval()
        count = self.config.evaluation_pairs
        correct = (self.classify() == self.shapes.labels[self.test][:, None]).double()
        figures = pair_figures(self.pretrained, self.held_out(count))
        if not isinstance(self.model, Autoencoder):
            figures["relative_map_error"] = pair_figures(self.pretrained, self.warped(count))["relative_map_error"]
            tuned = pair_figures(self.model, self.held_out(count))
            figures["equivariance_error_tuned"] = tuned["equivariance_error"]
            figures["equivariance_error_tuned_centred"] = tuned["equivariance_error_centred"]
        return {
            "accuracy": correct.mean().item(),
            "accuracy_base": correct[:, 0].mean().item(),
            **figures,
            "classes": len(self.shapes.classes),
            "test_shapes": len(self.test),
            "test_maps": correct.numel(),
        }

    @torch.no_grad()
    def classify(self) -> Int[Tensor, "shapes variants"]:
        """Predicted classes of all maps of held-out shapes, on the CPU."""
        self.head.eval()
        variants = torch.arange(self.shapes.variants)
        predicted = []
        for shape in self.test:
            parts = [self.maps(shape.expand(len(part)), part) for part in variants.split(BATCH)]
            predicted.append(torch.cat([self.head(self._features(self.model, part)).argmax(-1) for part in parts]))
        return torch.stack(predicted).cpu()

    def pictures(self) -> list[Picture]:
        from niso.experiments.shapes.figures import pictures

        return pictures(self)
