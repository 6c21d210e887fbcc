"""Conformal shape classification: meshes under conformal maps, as functions on the sphere (paper §5.2).

A shape is the heat kernel signature of a mesh, mapped conformally to the sphere; its variants are the same signature on
the maps of meshes that are conformally equivalent. An encoder is pre-trained on pairs of one shape's variants, and
then trained on together with an equivariant head that classifies shapes. Shapes of a class are only roughly conformally
related, so that an exact symmetry helps less than an approximate one that is learned.
"""

from __future__ import annotations

import copy
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from niso.config import SPECTRAL
from niso.data.shapes.prepared import PreparedShapes, open_shapes, split
from niso.errors import InputError, nearest
from niso.experiments.experiment import Experiment, Own, Phase, check_batch
from niso.experiments.head import frozen_phase, make_head
from niso.experiments.shapes.examples import ShapeExample, examples
from niso.experiments.shapes.maps import ShapeMaps, embedded
from niso.experiments.shapes.presets import PRESETS, ShapesConfig
from niso.experiments.shapes.published import PUBLISHED
from niso.experiments.shapes.vertices import VERTEX_METRICS, VertexReading
from niso.geometry.domains.domain import rastered_sphere
from niso.geometry.domains.equirectangular import Layout
from niso.geometry.mobius import MobiusTransformations
from niso.methods import methods_of
from niso.methods.evaluation import (
    EQUIVARIANCE_ERROR,
    EQUIVARIANCE_ERROR_CENTRED,
    LATENT_METRICS,
    RECONSTRUCTION_ERROR,
    RELATIVE_MAP_ERROR,
    RELATIVE_MAP_ERROR_CENTRED,
    Operator,
    PairEvaluation,
    evaluate_pairs,
    learned_operator,
)
from niso.methods.method import Batches, Method, Networks
from niso.networks import ClassificationObjective
from niso.random import EVALUATION_SEED, local_part, process, step_seed
from niso.results import Metric, Result
from niso.training.ahead import Ahead

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


@dataclass
class ShapesResult(Result):
    """What figures of shapes are drawn from.

    Attributes:
        examples: a held-out shape of each of the first classes.
        pairs: of variants of held-out shapes, before the encoder is trained on with the head.
        warped: of held-out shapes under random Möbius transformations, likewise.
    """

    examples: list[ShapeExample]
    pairs: PairEvaluation
    warped: PairEvaluation
    operator: Operator | None


class Shapes(Experiment):
    """The shapes experiment, see the module."""

    config: ShapesConfig
    name = "shapes"
    summary = (
        "Meshes are mapped conformally to the sphere and seen as functions there, their heat kernel signatures. Pairs "
        "of conformal variants of one shape are all that the encoder is pre-trained on, without labels. Encoder, "
        "operator and mass are then trained on together with a head that classifies shapes, and tested on all "
        "variants of shapes that were not trained on. How variants are related, Möbius transformations of the sphere, "
        "no method is told, but niso-group, in which several shapes share a random one, and the autoencoder's head, "
        "which is trained with them."
    )
    config_class = ShapesConfig
    presets = PRESETS
    preset_notes: ClassVar[dict[str, str]] = {
        "quick": "ten classes that niso makes, maps of 16×32: a minute or two, and their preparation; 59 %",
        "fine": "the same shapes, maps of 48×96: several minutes on one core; not run in full here",
        "small": "maps of 24×48: five minutes on one core; 71 %, of base shapes 88 %",
        "paper": "Conformal SHREC'11, maps of 96×192: for a GPU; not run here (the paper: 90.3 %)",
    }
    examples: ClassVar[dict[str, str]] = {
        "niso run shapes": "shapes that niso makes itself",
        "niso run shapes --preset small --data-dir PREPARED": "yours, by `niso data prepare shapes`",
    }
    main_settings: ClassVar[dict[str, str]] = {
        "data-dir": "what `niso data prepare shapes` wrote",
        "mobius": "strength of Möbius transformations for heads",
    }
    metrics: ClassVar[tuple[Metric, ...]] = (
        Metric("accuracy", "share of maps of held-out shapes, all variants, classified correctly", "higher"),
        Metric("accuracy_base", "the same, of the base shapes alone", "higher"),
        replace(
            RELATIVE_MAP_ERROR,
            text="‖τ′a − b‖² / ‖b‖² with the τ′ of another held-out shape under the same random Möbius transformation "
            "of the sphere, before the encoder is trained on with the head (mean)",
        ),
        RELATIVE_MAP_ERROR_CENTRED,
        replace(EQUIVARIANCE_ERROR, text=f"{EQUIVARIANCE_ERROR.text}, of variants of held-out shapes, likewise"),
        EQUIVARIANCE_ERROR_CENTRED,
        *LATENT_METRICS,
        RECONSTRUCTION_ERROR,
        Metric(
            "equivariance_error_tuned", "equivariance_error after the encoder was trained on with the head", "lower"
        ),
        Metric("equivariance_error_tuned_centred", "the same, centred", "lower"),
        Metric("relative_map_error_tuned", "relative_map_error likewise after it", "lower"),
        Metric("relative_map_error_tuned_centred", "the same, centred", "lower"),
        Metric(
            "accuracy_val",
            "accuracy on validation shapes: of the training shapes, some that nothing trained on",
            "higher",
        ),
        Metric("accuracy_base_val", "the same, of the base shapes alone", "higher"),
        Metric(
            "grid_r2",
            "what the grid keeps of the signatures: R² of its values read back at the vertices of held-out meshes, by "
            "area (mean over all variants)",
            "higher",
        ),
        *VERTEX_METRICS,
        Metric("classes", "classes of shapes"),
        Metric("test_shapes", "held-out shapes"),
        Metric("test_maps", "maps of held-out shapes"),
    )
    figures = "niso.experiments.shapes.figures"
    published = PUBLISHED

    def build(self) -> None:
        config, data_dir = self.config, self.data_dir
        prepared = None if data_dir is None else open_shapes(data_dir)
        made = config.preparation
        channels = made.times if prepared is None else prepared.channels
        grid = prepared or made
        size = (grid.height, grid.width)
        # before the embedded shapes, which may take minutes to prepare
        self.method = self.make_method(lambda: make_networks(config, channels, size, grid.layout))
        self.shapes = embedded(config) if prepared is None else prepared
        if self.shapes.variants < 2:
            raise InputError(
                f"{self.shapes.folder} has no variants of its shapes, which pairs are made of: prepare some"
            )
        per_class = config.train_shapes + config.test_shapes
        self.shapes, self.left_out = without_small_classes(self.shapes, config.leave_out, per_class)
        if len(self.shapes.classes) < 2:
            raise InputError(
                f"{self.shapes.folder} has one class of shapes to tell, {self.shapes.classes[0]}: give more"
            )
        if self.left_out and process()[0] == 0:
            few = ", ".join(f"{name} ({count})" for name, count in self.left_out.items())
            print(f"left out, with fewer than the {per_class} shapes a class that are needed: {few}", file=sys.stderr)
        labels = self.shapes.labels
        trained, self.test = split(labels, self.seed, per_class, config.train_shapes, classes=self.shapes.classes)
        self.train, self.validation = last_of_each_class(trained, labels, config.validation_shapes)
        self.labels = labels.to(self.device)
        self.maps = ShapeMaps(self.shapes, self.train, config.clip, config.memory, self.device)
        self.action = MobiusTransformations(config.mobius, self.shapes.layout)
        check_batch(self.method, config.training.batch_size, config.training.accumulation)
        if config.tuning == "labels-and-pairs":
            check_batch(self.method, config.training.batch_size, config.head.accumulation)
        self.pretrained = self.method
        self.head: nn.Module = nn.Identity()

    @classmethod
    def methods(cls) -> tuple[str, ...]:
        return methods_of(grouped=True)

    @classmethod
    def unread(cls, config: ShapesConfig, method: str, data_dir: Path | None) -> dict[str, str]:
        unread = super().unread(config, method, data_dir)
        unread |= dict.fromkeys(("conv.image_size", "conv.image_channels"), "it is that of the maps")
        if config.tuning == "labels" or "eigenvalues" not in cls.reads(method):
            eigenvalues = ("head.eigenvalue_learning_rate", "head.eigenvalues_frozen")
            unread |= dict.fromkeys(eigenvalues, "eigenvalues are not trained on with the head")
        if config.tuning == "none":
            unread |= {f"head.{name}": "the head is trained on frozen networks" for name in SPECTRAL}
        if data_dir is not None:
            unread |= dict.fromkeys(("preparation", "vertices"), "the shapes of --data-dir are prepared already")
        return unread | config.heads_unread("classifier" in cls.reads(method))

    def facts(self) -> dict[str, Any]:
        """The maps; shapes that were trained, validated and tested on, class by class; classes with too few."""
        names = self.shapes.names
        members = {"train": self.train, "validation": self.validation, "test": self.test}
        parts = {f"{part}_shapes": [names[shape] for shape in shapes.tolist()] for part, shapes in members.items()}
        maps, shapes = self.maps, self.shapes
        data = {
            "kind": "images",
            "shape": [shapes.channels, shapes.height, shapes.width],
            "layout": shapes.layout,
            "scaling": {"offset": maps.mean.flatten().tolist(), "scale": maps.range.flatten().tolist()},
            "clip": 1.0,
            "range": list(maps.extremes(self.train)),
        }
        return {**parts, **({"classes_left_out": list(self.left_out)} if self.left_out else {}), "data": data}

    @classmethod
    def rebuild(
        cls, config: ShapesConfig, facts: Mapping[str, Any], own: Own | None = None
    ) -> tuple[ShapesConfig, Networks]:
        data = facts["data"]
        channels, height, width = data["shape"]
        return config, make_networks(config, channels, (height, width), data["layout"])

    # Training

    def phases(self) -> Iterator[Phase]:
        config, method = self.config, self.method
        yield Phase("pretrain", method.objective(), self._related(config.training.steps), config.training)
        method.after_pretraining(self.train_pairs, self.seed)
        self.pretrained = copy.copy(method)
        self.pretrained.model = copy.deepcopy(method.model).requires_grad_(False).eval()
        base = self.maps(self.train[:BATCH], torch.zeros_like(self.train[:BATCH]))
        self.head = make_head(method, config, base, len(self.shapes.classes))
        if config.tuning == "labels":
            train_features_only(method, base[:2])
        yield self._head_phase()

    def weights(self, objective: nn.Module) -> dict[str, Tensor]:
        """The model before its encoder was trained on with the head: its decoder goes with that."""
        return {f"model.{name}": tensor for name, tensor in self.pretrained.model.state_dict().items()}

    def _related(self, steps: int) -> Callable[[int], tuple[Tensor, ...]]:
        """Pairs (ψ, Tψ) to train on, of variants of a shape; or in groups that share a random T, of any shapes."""
        source = self._sampler(self.pairs_at, steps)
        size, group, action = self.config.training.batch_size, self.method.group, self.action
        if not self.method.grouped:
            return source

        def sample(step: int) -> tuple[Tensor, ...]:
            (x,) = source(step)
            t = local_part(action.sample(size // group)).repeat_interleave(group, dim=0)
            return x, action.act(x, t)

        return sample

    def _head_phase(self) -> Phase:
        """Training of the head, and of what is trained on together with it."""
        config, method, labelled = self.config, self.method, self._labelled()
        if config.tuning == "none":
            once = config.head.steps * config.head.batch_size >= len(self.train) * self.shapes.variants
            examples = self._examples if once else None
            return frozen_phase(method, self.head, config, labelled, examples, self._chosen)
        smoothing, encode = config.label_smoothing, method.head_features
        tuned = partial(ClassificationObjective, method.model, self.head, encode, frozen=False, smoothing=smoothing)
        if config.tuning == "labels":
            return Phase("head", tuned(), labelled, config.head)
        related, pretraining = self._related(config.head.steps), method.objective()
        both = tuned(also=lambda views, _: pretraining(views, 1.0))  # weights as they were at the end of pre-training
        return Phase("head", both, lambda step: (*labelled(step), *related(step)), config.head)

    def _examples(self) -> Batches:
        """All maps of training shapes with their labels, shape by shape."""
        for part in torch.arange(len(self.train) * self.shapes.variants).split(BATCH):
            shape = self.train[part // self.shapes.variants]
            yield self.maps(shape, part % self.shapes.variants), self.labels[shape.to(self.device)]

    def _chosen(self, step: int) -> Int[Tensor, " batch"]:
        """Which of `_examples` a step has."""
        shape, (variant,) = self.labelled_at(step)
        return (self.train == shape[:, None]).int().argmax(1) * self.shapes.variants + variant

    def pairs_at(self, step: int) -> Views:
        """Pairs of variants of training shapes, or the first of each: this process's part of a step's batch."""
        generator = torch.Generator().manual_seed(step_seed(self.seed, step, "pairs"))
        size, variants = self.config.training.batch_size, self.shapes.variants
        shape = self.train[torch.randint(len(self.train), (size,), generator=generator)]
        is_base = torch.rand(size, generator=generator) < self.config.base_share
        first = torch.randint(1, variants, (size,), generator=generator) * ~is_base
        second = torch.randint(variants, (size,), generator=generator)
        views = (first,) if self.method.grouped else (first, second)
        return Views(local_part(shape), tuple(map(local_part, views)))

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

        def sample(step: int) -> tuple[Tensor, ...]:
            (x,) = source(step)
            if self.method.augmented_head:
                x = self.action.act(x, local_part(self.action.sample(self.config.head.batch_size)))
            return x, self.labels[self.labelled_at(step).shape.to(self.device, non_blocking=True)]

        return sample

    def train_pairs(self, count: int) -> Iterator[tuple[Tensor, ...]]:
        """Random variants of training shapes, the same in all processes."""
        return self.pairs_of(self.train, count, step_seed(self.seed, 0, "maps"))

    # Evaluation

    def pairs_of(
        self, members: Int[Tensor, " shapes"], count: int, seed: int = EVALUATION_SEED
    ) -> Iterator[tuple[Tensor, ...]]:
        """Batches of `count` pairs of different variants of one shape each."""
        generator = torch.Generator().manual_seed(seed)
        members = members[torch.randperm(len(members), generator=generator)]  # the first few are of several classes
        shape = members[torch.arange(count) % len(members)]
        first = torch.randint(self.shapes.variants, (count,), generator=generator)
        second = (first + torch.randint(1, self.shapes.variants, (count,), generator=generator)) % self.shapes.variants
        for s, i, j in zip(shape.split(BATCH), first.split(BATCH), second.split(BATCH), strict=True):
            yield self.maps(s, i), self.maps(s, j)

    def warped(self, count: int) -> Iterator[tuple[Tensor, ...]]:
        """Batches of held-out base shapes ψ, ψ under a random Möbius transformation, others, and these under it."""
        generator = torch.Generator().manual_seed(EVALUATION_SEED)
        transformations = self.action.sample(count, generator)
        index = torch.arange(count)
        members = self.test[torch.randperm(len(self.test), generator=generator)]
        shape, other = (members[(index + offset) % len(members)] for offset in (0, 1))
        base = torch.zeros(BATCH, dtype=torch.long)
        for s, o, t in zip(shape.split(BATCH), other.split(BATCH), transformations.split(BATCH), strict=True):
            x, y = self.maps(s, base[: len(s)]), self.maps(o, base[: len(s)])
            yield x, self.action.act(x, t), y, self.action.act(y, t)

    @torch.no_grad()
    def evaluate(self) -> ShapesResult:
        count, method = self.config.evaluation_pairs, self.pretrained
        correct = self.correct(self.test)
        pairs = evaluate_pairs(method, self.pairs_of(self.test, count))
        warped = evaluate_pairs(method, self.warped(count))
        metrics = {
            "accuracy": correct.mean().item(),
            "accuracy_base": correct[:, 0].mean().item(),
            **pairs.metrics,
            **pairs.latents,
            **self.evaluate_grid(),
            **self.evaluate_meshes(),
            "classes": len(self.shapes.classes),
            "test_shapes": len(self.test),
            "test_maps": correct.numel(),
        }
        if method.has_maps:
            for name in ("relative_map_error", "relative_map_error_centred"):
                metrics[name] = warped.metrics[name]
        if method.has_maps and self.config.tuning != "none":
            tuned, warped_tuned = (
                evaluate_pairs(self.method, batches).metrics
                for batches in (self.pairs_of(self.test, count), self.warped(count))
            )
            metrics["equivariance_error_tuned"] = tuned["equivariance_error"]
            metrics["equivariance_error_tuned_centred"] = tuned["equivariance_error_centred"]
            metrics["relative_map_error_tuned"] = warped_tuned["relative_map_error"]
            metrics["relative_map_error_tuned_centred"] = warped_tuned["relative_map_error_centred"]
        if len(self.validation):
            validated = self.correct(self.validation)
            metrics["accuracy_val"] = validated.mean().item()
            metrics["accuracy_base_val"] = validated[:, 0].mean().item()
        shown = examples(self.shapes, self.test, self.maps)
        return ShapesResult(metrics, shown, pairs, warped, learned_operator(method), curves=pairs.curves)

    def evaluate_grid(self) -> dict[str, float]:
        """What the grid keeps of held-out shapes; nothing where their signatures are constant."""
        kept = [r2 for shape in self.test.tolist() for r2 in self.shapes.grid_r2(shape) if r2 is not None]
        return {"grid_r2": sum(kept) / len(kept)} if kept else {}

    def evaluate_meshes(self) -> dict[str, float]:
        """How far coefficients and maps of held-out shapes depend on their mesh; nothing where no field is learned."""
        method = self.pretrained
        height, width = method.grid
        reading = VertexReading(
            self.shapes, self.maps, method.spectrum_at, float(height * width), method.solve, EVALUATION_SEED
        )
        return reading.measure(self.test)

    def correct(self, members: Int[Tensor, " shapes"]) -> Float[Tensor, "shapes variants"]:
        """1 for each map of these shapes that is classified correctly, else 0."""
        return (self.classify(members) == self.shapes.labels[members][:, None]).double()

    @torch.no_grad()
    def classify(self, members: Int[Tensor, " shapes"]) -> Int[Tensor, "shapes variants"]:
        """Predicted classes of all maps of these shapes, on the CPU."""
        self.method.model.eval()
        self.head.eval()
        variants = torch.arange(self.shapes.variants)
        predicted = []
        for shape in members:
            parts = [self.maps(shape.expand(len(part)), part) for part in variants.split(BATCH)]
            predicted.append(torch.cat([self._scores(part).argmax(-1) for part in parts]))
        return torch.stack(predicted).cpu()

    def _scores(self, x: Tensor) -> Tensor:
        features = self.method.head_features(x)
        with self.precision():
            return self.head(features)


def make_networks(config: ShapesConfig, channels: int, size: tuple[int, int], layout: Layout) -> Networks:
    """Untrained networks for maps of so many channels on a grid of the sphere.

    Raises:
        ValueError: the networks do not fit the grid.
    """
    return Networks.convolutional(config.conv, size, channels, rastered_sphere(size, layout))


def without_small_classes(
    shapes: PreparedShapes, leave_out: Sequence[str], per_class: int
) -> tuple[PreparedShapes, dict[str, int]]:
    """Shapes of all classes but those to leave out and those with fewer than `per_class` shapes; sizes of the latter.

    Small classes stay, for `split` to refuse, where fewer than two others remain.

    Raises:
        InputError: a class to leave out does not exist, or nothing remains.
    """
    if unknown := sorted(set(leave_out) - set(shapes.classes)):
        raise InputError(f"no class {unknown[0]!r} to leave out{nearest(unknown[0], shapes.classes)}")
    if not set(shapes.classes) - set(leave_out):
        raise InputError(f"all classes of {shapes.folder} are left out: keep some")
    shapes = shapes.without(leave_out) if leave_out else shapes
    sizes = dict(zip(shapes.classes, torch.bincount(shapes.labels).tolist(), strict=True))
    small = {name: size for name, size in sizes.items() if size < per_class}
    if not small or len(sizes) - len(small) < 2:
        return shapes, {}
    return shapes.without(small), small


def last_of_each_class(
    members: Int[Tensor, " members"], labels: Int[Tensor, " shapes"], count: int
) -> tuple[Int[Tensor, " others"], Int[Tensor, " last"]]:
    """Members without the last `count` of each class, and these."""
    classes = labels[members]
    place_from_end = torch.stack([(classes[index:] == classes[index]).sum() for index in range(len(members))])
    last = place_from_end <= count
    return members[~last], members[last]


def train_features_only(method: Method, examples: Float[Tensor, "batch channels height width"]) -> None:
    """Take `requires_grad` from what features do not depend on: the decoder, eigenvalues, NFT's lifting.

    Weight decay would change these, and several processes would wait for their gradients.
    """
    parameters = list(method.model.parameters())
    gradients = torch.autograd.grad(method.head_features(examples).sum(), parameters, allow_unused=True)
    for parameter, gradient in zip(parameters, gradients, strict=True):
        parameter.requires_grad_(gradient is not None)
