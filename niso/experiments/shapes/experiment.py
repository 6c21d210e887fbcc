"""Conformal shape classification: meshes under conformal maps, as functions on the sphere (paper §5.2).

A shape is the heat kernel signature of a mesh, mapped conformally to the sphere; its variants are the same signature on
the maps of meshes that are conformally equivalent. An encoder is pre-trained on pairs of one shape's variants, and
then trained on together with an equivariant head that classifies shapes. Shapes of a class are only roughly conformally
related, so that an exact symmetry helps less than an approximate one that is learned.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from niso.data.evenly import evenly
from niso.data.shapes.copies import copies_note
from niso.data.shapes.prepared import open_shapes, preparation_of
from niso.errors import InputError
from niso.experiments.classifier import PRETRAINED, Classifier
from niso.experiments.experiment import Experiment, Phase, check_batch
from niso.experiments.head import (
    ACCURACY_CHANCE,
    OF_FROZEN,
    accuracy_chance,
    classes_of,
    frozen_phase,
    make_head,
    try_head,
)
from niso.experiments.own import Own
from niso.experiments.shapes.examples import ShapeExample, examples
from niso.experiments.shapes.maps import ShapeMaps, embedded
from niso.experiments.shapes.presets import PRESETS, ShapesConfig
from niso.experiments.shapes.published import PUBLISHED
from niso.experiments.shapes.sampling import BATCH, ShapeSampling
from niso.experiments.shapes.split import split, without_small_classes
from niso.experiments.shapes.vertices import VERTEX_METRICS, VertexReading
from niso.geometry.domains.domain import rastered_sphere
from niso.geometry.domains.equirectangular import Layout
from niso.methods import METHODS, methods_of
from niso.methods.evaluation.latents import INVARIANTS_ROUNDING, LATENT_METRICS
from niso.methods.evaluation.operator import Operator, learned_operator
from niso.methods.evaluation.pairs import (
    EQUIVARIANCE_ERROR,
    EQUIVARIANCE_ERROR_CENTRED,
    RECONSTRUCTION_ERROR,
    RELATIVE_MAP_ERROR,
    RELATIVE_MAP_ERROR_CENTRED,
    PairEvaluation,
    evaluate_pairs,
)
from niso.methods.method import Method, Networks
from niso.networks import ClassificationObjective
from niso.results import Metric, Result


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
    method: Method
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
        ACCURACY_CHANCE,
        replace(
            RELATIVE_MAP_ERROR,
            text="‖τ′a − b‖² / ‖b‖² with the τ′ of another held-out shape under the same random Möbius transformation "
            "of the sphere, before the encoder is trained on with the head (mean)",
        ),
        RELATIVE_MAP_ERROR_CENTRED,
        replace(EQUIVARIANCE_ERROR, text=f"{EQUIVARIANCE_ERROR.text}, of variants of held-out shapes, likewise"),
        EQUIVARIANCE_ERROR_CENTRED,
        *LATENT_METRICS,
        INVARIANTS_ROUNDING,
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
        self.method = self.make_method(
            lambda: make_networks(config, channels, size, grid.layout),
            observed=f"maps of {grid.height}×{grid.width}",
            larger="prepare larger maps" if prepared else "larger --preparation.height and --preparation.width",
        )
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
        notes = []
        if self.left_out:
            few = ", ".join(f"{name} ({count})" for name, count in self.left_out.items())
            notes.append(f"left out, with fewer than the {per_class} shapes a class that are needed: {few}")
        notes.append(copies_note(self.shapes.invariants()))
        self.split = split(self.shapes, config, self.seed)
        self.maps = ShapeMaps(self.shapes, self.split.train, config.clip, config.memory, self.device)
        if self.maps.flat:
            remedy = "prepare the shapes with an earlier --last-time" if data_dir else "give an earlier last_time"
            notes.append(f"{self.maps.flat}; they are read as 0: {remedy}")
        self.announcement = "; ".join(filter(None, notes))
        group = self.method.group if self.method.grouped else None
        self.sampling = ShapeSampling(config, self.seed, self.maps, self.split, group)
        check_batch(self.method, config.training)
        if config.tuning == "labels-and-pairs":
            check_batch(self.method, replace(config.training, accumulation=config.head.accumulation))
        self.pretrained = self.method
        self.head: nn.Module = nn.Identity()
        try_head(self.method, config, self.some_maps(), len(self.shapes.classes))

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
            unread |= OF_FROZEN
        if data_dir is not None:
            unread |= dict.fromkeys(("preparation", "vertices"), "the shapes of --data-dir are prepared already")
        return unread | METHODS.find(method).heads_unread(config)

    def facts(self) -> dict[str, Any]:
        """The maps; shapes that were trained, validated and tested on, class by class; classes with too few.

        Shapes of niso's own are determined by the settings; how they are rounded depends on the machine.
        """
        maps, shapes = self.maps, self.shapes
        parts = {
            f"{part}_shapes": [shapes.names[shape] for shape in members.tolist()]
            for part, members in self.split._asdict().items()
        }
        data = {
            "kind": "images",
            "shape": [shapes.channels, shapes.height, shapes.width],
            "layout": shapes.layout,
            "preparation": preparation_of(shapes.folder),
            "classes": list(shapes.classes),
            "scaling": {"offset": maps.mean.flatten().tolist(), "scale": maps.range.flatten().tolist()},
            "clip": 1.0,
            "range": list(maps.extremes(self.split.train)),
        }
        left_out = {"classes_left_out": list(self.left_out)} if self.left_out else {}
        content = {} if self.data_dir is None else {"content": shapes.content()}
        return {**parts, **left_out, **content, "data": data}

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
        sampler = self.sampling.related(config.training.steps)
        yield Phase("pretrain", method.objective(), sampler, config.training)
        method.after_pretraining(self.sampling.train_pairs, self.seed)
        if config.tuning != "none":  # else nothing more is trained on
            self.pretrained = copy.copy(method)
            self.pretrained.model = copy.deepcopy(method.model).requires_grad_(False).eval()
        base = self.some_maps()
        self.head = make_head(method, config, base, len(self.shapes.classes))
        if config.tuning == "labels":
            train_features_only(method, base[:2])
        yield self._head_phase(base)

    def some_maps(self) -> Tensor:
        """Maps of some shapes to train on."""
        some = self.split.train[evenly(BATCH, len(self.split.train))]  # in the order of classes
        return self.maps(some, torch.zeros_like(some))

    def weights(self, objective: nn.Module) -> dict[str, Tensor]:
        """The classifier, and the model before it was trained on with the head, which the decoder goes with."""
        model = {f"{PRETRAINED}{name}": tensor for name, tensor in self.pretrained.model.state_dict().items()}
        return model | Classifier(self.method, self.head).weights(self.pretrained)

    def _head_phase(self, base: Tensor) -> Phase:
        """Training of the head, and of what is trained on together with it; `base` are maps of some shapes."""
        config, method, sampling = self.config, self.method, self.sampling
        labelled = sampling.labelled(method.augmented_head)
        if config.tuning == "none":
            once = config.head.steps * config.head.batch_size >= len(self.split.train) * self.shapes.variants
            examples = sampling.examples if once else None
            return frozen_phase(method, self.head, config, base, labelled, examples, sampling.chosen)
        smoothing, encode = config.label_smoothing, method.head_features
        tuned = partial(ClassificationObjective, method.model, self.head, encode, frozen=False, smoothing=smoothing)
        if config.tuning == "labels":
            return Phase("head", tuned(), labelled, config.head)
        related, pretraining = sampling.related(config.head.steps, "tuning pairs"), method.objective()
        both = tuned(also=lambda views, _: pretraining(views, 1.0))  # weights as they were at the end of pre-training
        return Phase("head", both, lambda step: (*labelled(step), *related(step)), config.head)

    # Evaluation

    @torch.no_grad()
    def evaluate(self) -> ShapesResult:
        count, method, sampling = self.config.evaluation_pairs, self.pretrained, self.sampling
        test, validation = self.split.test, self.split.validation
        correct = self.correct(test)
        pairs = evaluate_pairs(method, sampling.pairs(test, count))
        warped = evaluate_pairs(method, sampling.warped(count))
        metrics = {
            "accuracy": correct.mean().item(),
            "accuracy_base": correct[:, 0].mean().item(),
            ACCURACY_CHANCE.key: accuracy_chance(self.shapes.labels[test]),
            **pairs.metrics,
            **pairs.latents,
            **self.evaluate_grid(),
            **self.evaluate_meshes(),
            "classes": len(self.shapes.classes),
            "test_shapes": len(test),
            "test_maps": correct.numel(),
        }
        if method.has_maps:
            metrics |= {key: value for key, value in warped.metrics.items() if key.startswith("relative_map_error")}
        if method.has_maps and self.config.tuning != "none":
            tuned, warped_tuned = (
                evaluate_pairs(self.method, batches).metrics
                for batches in (sampling.pairs(test, count), sampling.warped(count))
            )
            for name, of in (("equivariance_error", tuned), ("relative_map_error", warped_tuned)):
                metrics |= {key.replace(name, f"{name}_tuned"): of[key] for key in of if key.startswith(name)}
        if len(validation):
            validated = self.correct(validation)
            metrics["accuracy_val"] = validated.mean().item()
            metrics["accuracy_base_val"] = validated[:, 0].mean().item()
        shown = examples(self.shapes, test, self.maps)
        return ShapesResult(metrics, shown, pairs, warped, learned_operator(method), curves=pairs.curves)

    def evaluate_grid(self) -> dict[str, float]:
        """What the grid keeps of held-out shapes; nothing where their signatures are constant."""
        kept = [r2 for shape in self.split.test.tolist() for r2 in self.shapes.grid_r2(shape) if r2 is not None]
        return {"grid_r2": sum(kept) / len(kept)} if kept else {}

    def evaluate_meshes(self) -> dict[str, float]:
        """How far coefficients and maps of held-out shapes depend on their mesh; nothing where no field is learned."""
        return VertexReading(self.shapes, self.maps, self.pretrained).measure(self.split.test)

    def correct(self, members: Int[Tensor, " shapes"]) -> Float[Tensor, "shapes variants"]:
        """1 for each map of these shapes that is classified correctly, else 0."""
        return (self.classify(members) == self.shapes.labels[members][:, None]).double()

    @torch.no_grad()
    def classify(self, members: Int[Tensor, " shapes"]) -> Int[Tensor, "shapes variants"]:
        """Predicted classes of all maps of these shapes, on the CPU."""
        method = self.method
        method.model.eval()
        variants = torch.arange(self.shapes.variants)
        predicted = []
        for shape in members:
            parts = [method.head_features(self.maps(shape.expand(len(part)), part)) for part in variants.split(BATCH)]
            predicted.append(torch.cat([classes_of(self.head, part, self.precision) for part in parts]))
        return torch.stack(predicted).cpu()


def make_networks(config: ShapesConfig, channels: int, size: tuple[int, int], layout: Layout) -> Networks:
    """Untrained networks for maps of so many channels on a grid of the sphere.

    Raises:
        ValueError: the networks do not fit the grid.
    """
    return Networks.convolutional(config.conv, size, channels, rastered_sphere(size, layout))


def train_features_only(method: Method, examples: Float[Tensor, "batch channels height width"]) -> None:
    """Take `requires_grad` from what features do not depend on: the decoder, eigenvalues, NFT's lifting.

    Weight decay would change these, and several processes would wait for their gradients.
    """
    parameters = [parameter for parameter in method.model.parameters() if parameter.requires_grad]
    gradients = torch.autograd.grad(method.head_features(examples).sum(), parameters, allow_unused=True)
    for parameter, gradient in zip(parameters, gradients, strict=True):
        parameter.requires_grad_(gradient is not None)
