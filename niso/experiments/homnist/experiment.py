"""homNIST: digits under homographies, recognised by a head that has seen none (paper §5.1).

An encoder is pre-trained on pairs of a digit and the same digit under a random homography, without labels, and frozen.
A head is trained on its latents of digits as they are, and tested on digits under homographies. It can be right only as
far as the latents are equivariant, so that an invariant head sees through the homography, and still tell digits apart.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, get_args

import torch
from jaxtyping import Bool, Float, Int, UInt8
from torch import Tensor, nn

from niso.config import SPECTRAL, Optimisation
from niso.data.digits import DIGITS, SHIPPED
from niso.data.digits.homnist import PUBLISHED_DISTRIBUTION, GeneratedTestSet, PerturbedDigits, PublishedTestSet
from niso.data.digits.mnist import check_digits, pad, signed
from niso.data.evenly import evenly
from niso.data.transformed import labelled, related
from niso.errors import InputError
from niso.experiments import partial_views
from niso.experiments.experiment import PIXELS, Experiment, Own, Phase, check_batch
from niso.experiments.head import frozen_phase, make_head
from niso.experiments.homnist.presets import METHOD_SETTINGS, PRESETS, Architecture, HomnistConfig
from niso.experiments.homnist.published import PUBLISHED
from niso.experiments.partial_views import PartialViews
from niso.geometry import ACTIONS
from niso.geometry.action import Transformations, composes, powers
from niso.geometry.occluders import Occluder, draw_occluder
from niso.methods import methods_of
from niso.methods.evaluation import (
    LATENT_METRICS,
    PAIR_METRICS,
    REPETITION_METRICS,
    Operator,
    PairEvaluation,
    Repetition,
    evaluate_pairs,
    learned_operator,
    repeat_maps,
)
from niso.methods.method import Batches, Networks
from niso.networks import ViTDecoder, ViTEncoder
from niso.networks.occlusion import RandomOcclusion
from niso.random import EVALUATION_SEED, check_parts, process, step_seed
from niso.results import Curve, Metric, Result

BATCH = 500
"""Images encoded at once where nothing is trained."""
VALIDATION_SEED = 2_023
"""Of the homographies of validation digits, others than those of the test set."""
VALIDATION_COPIES = 4
"""Homographies of each validation digit, at most."""


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


class Scores(NamedTuple):
    """How a perturbed set was classified, an entry an image, on the CPU.

    Attributes:
        correct: whether the class is right.
        strength: of the transformation.
        label: what the strength is, and its unit.
    """

    correct: Bool[Tensor, " images"]
    strength: Float[Tensor, " images"]
    label: str


@dataclass
class HomnistResult(Result):
    """What figures of homNIST are drawn from."""

    scores: Scores
    pairs: PairEvaluation
    operator: Operator | None
    partial: PartialViews | None = None
    repetition: Repetition | None = None


class Homnist(Experiment):
    """The homNIST experiment, see the module."""

    config: HomnistConfig
    name = "homnist"
    summary = (
        "Pairs of a digit and the same digit under a random homography are all that the encoder is trained on, without "
        "labels. It is then frozen, and a head learns to classify its latents of upright digits. The test digits are "
        "under homographies that the head has never seen: it recognises them as far as the homographies act on the "
        "latents by isometries, which an equivariant head sees through, and as far as the latents tell digits apart."
    )
    config_class = HomnistConfig
    presets = PRESETS
    method_settings = METHOD_SETTINGS
    preset_notes: ClassVar[dict[str, str]] = {
        "quick": "scikit-learn's digits: two to five minutes on one core; 95 % by niso-group",
        "small": "MNIST, 0.37 M parameters: a quarter of an hour on one core; 98 % by niso-group",
        "medium": "MNIST, twice the steps: forty minutes on one core, far less with bfloat16; 98.6 % by niso-group",
        "large": "MNIST, 1.4 M parameters, all test images: half an hour with bfloat16; 99.4 % by niso-group",
        "long": "the network of small, published losses and 50,000 steps: 80 minutes or more; 91 % by niso",
        "paper": "the paper's text, 50,000 steps: for a GPU; not run here",
        "released": "the released settings where they differ: for a GPU; a seventh of it was run here",
    }
    examples: ClassVar[dict[str, str]] = {
        "niso run homnist": "no download",
        "niso run homnist --preset small --methods niso niso-group --data-dir MNIST": "pairs beside groups",
    }
    main_settings: ClassVar[dict[str, str]] = {
        "data-dir": "a folder with MNIST's four idx files",
        "occlusion": "hide up to this share of each picture",
        "classifier": "the head",
    }
    metrics: ClassVar[tuple[Metric, ...]] = (
        Metric("accuracy", "share of perturbed test images classified correctly", "higher"),
        Metric("accuracy_clean", "share of unperturbed test digits classified correctly", "higher"),
        *PAIR_METRICS,
        *LATENT_METRICS,
        *REPETITION_METRICS,
        Metric(
            "accuracy_val", "accuracy on perturbed validation digits: training digits that nothing trained on", "higher"
        ),
        Metric("accuracy_clean_val", "the same without perturbation", "higher"),
        Metric(
            "accuracy_covered",
            "accuracy on perturbed test digits of which occluders cover 10, 20, 30 and 40 % (mean of the four)",
            "higher",
        ),
        Metric("accuracy_covered_val", "the same of validation digits", "higher"),
        Metric("test_images", "perturbed test images: digits times homographies of each"),
    )
    figures = "niso.experiments.homnist.figures"
    published = PUBLISHED

    @classmethod
    def default_method(cls, config: HomnistConfig, data_dir: Path | None) -> str:
        """Groups: their maps know T alone, and they are within half a point of the best on validation digits
        (docs/experiments/homnist.md). The paper's method is "niso", pairs."""
        return "niso-group"

    def build(self) -> None:
        config = self.config
        data = check_digits(config.digits, DIGITS.find(config.digits)(self.data_dir))
        images, labels = pad(data.train_images), data.train_labels
        apart = torch.zeros(len(labels), dtype=torch.bool)
        apart[spread_over_classes(round(config.validation * len(labels)), labels)] = True
        self.validation_images, self.validation_labels = images[apart], labels[apart]
        self.train_images, self.train_labels = images[~apart].to(self.device), labels[~apart].to(self.device)
        self.test_images, self.test_labels = pad(data.test_images), data.test_labels
        if config.test_digits is not None and not config.published:
            index = spread_over_classes(config.test_digits, self.test_labels)
            self.test_images, self.test_labels = self.test_images[index], self.test_labels[index]
        self.action, self.test_action = make_actions(config.action)
        self.test_set = self._test_set()
        self.method = self.make_method(lambda: make_networks(config, images.shape[-1]))
        if self.method.views == 3 and not composes(self.action):
            raise InputError(f"--action {config.action} cannot be applied twice, as {self.method_name} needs it")
        self.head: nn.Module = nn.Identity()
        check_batch(self.method, config.training.batch_size, config.training.accumulation)
        if config.occlusion:
            check_batch(self.method, config.completion.batch_size, config.completion.accumulation)
        check_parts(config.head.batch_size, config.head.accumulation)

    @classmethod
    def methods(cls) -> tuple[str, ...]:
        return methods_of(views=3, grouped=True)

    @classmethod
    def unread(cls, config: HomnistConfig, method: str, data_dir: Path | None) -> dict[str, str]:
        unread = super().unread(config, method, data_dir)
        unread |= {f"head.{name}": "the head is trained on frozen networks" for name in SPECTRAL}
        unread |= {f"{kind}.image_size": "the digits have a size of their own" for kind in get_args(Architecture)}
        unread |= {f"{kind}.image_channels": "digits have one channel" for kind in get_args(Architecture)}
        unread |= {
            kind: f"--architecture is {config.architecture}, not {kind}"
            for kind in get_args(Architecture)
            if kind != config.architecture
        }
        if config.digits in SHIPPED:
            others = " or ".join(f"--digits {name}" for name in DIGITS if name not in SHIPPED)
            unread["data_dir"] = f"--digits {config.digits} come with a library; add {others} to read it"
        return unread | config.heads_unread("classifier" in cls.reads(method)) | config.views_unread()

    def facts(self) -> dict[str, Any]:
        side = self.train_images.shape[-1]
        return {"data": {"name": self.config.digits, "kind": "images", "shape": [1, side, side], **PIXELS}}

    @classmethod
    def rebuild(
        cls, config: HomnistConfig, facts: Mapping[str, Any], own: Own | None = None
    ) -> tuple[HomnistConfig, Networks]:
        return config, make_networks(config, facts["data"]["shape"][-1])

    def _test_set(self) -> PerturbedDigits:
        """The test set: generated, or the published one where it is asked for."""
        config = self.config
        if not config.published:
            return GeneratedTestSet(self.test_images, self.test_labels, config.test_copies, action=self.test_action)
        files = sorted(self.data_dir.glob("*.mat")) if self.data_dir else []
        if len(files) != 1 or config.digits != "mnist" or config.test_digits is not None:
            raise InputError(
                "--published needs MNIST, all its test digits, and one .mat file in --data-dir, where "
                f"{len(files)} are: put homNIST's there, or leave --published out to have a test set generated"
            )
        published = PublishedTestSet(files[0], config.test_copies)
        sizes = [tuple(images.shape[-2:]) for images in (next(published.batches(1)).images, self.train_images)]
        if sizes[0] != sizes[1]:
            theirs, ours = ("×".join(map(str, size)) for size in sizes)
            raise InputError(f"{files[0]} holds images of {theirs} pixels, not {ours}: give homNIST's own file")
        return published

    # Training

    def phases(self) -> Iterator[Phase]:
        config, method = self.config, self.method
        yield Phase("pretrain", method.objective(), self.sample, config.training)
        method.after_pretraining(self.train_pairs, self.seed)
        if occlusion := make_occlusion(config, method.views):
            objective, optimisation = method.completion(occlusion), config.completion
            yield Phase("completion", objective, lambda step: self.sample(step, optimisation), optimisation)
        first, _ = next(self._examples())
        self.head = make_head(method, config, first, int(self.train_labels.max()) + 1)
        once = not config.occlusion and config.head.steps * config.head.batch_size >= len(self.train_images)
        yield frozen_phase(method, self.head, config, self._labelled, self._examples if once else None)

    def sample(self, step: int, optimisation: Optimisation | None = None) -> tuple[Tensor, ...]:
        """Pairs (ψ, Tψ), triplets (ψ, Tψ, T²ψ) or groups of pairs of training digits: this process's part."""
        size = (optimisation or self.config.training).batch_size // process()[1]
        return related(self.train_images, size, self.action, self.method.views, self.method.group)

    def _labelled(self, step: int) -> tuple[Tensor, Tensor]:
        """Training digits and their classes, for the head: this process's part."""
        size = self.config.head.batch_size // process()[1]
        action = self.action if self.method.augmented_head else None
        x, classes = labelled(self.train_images, self.train_labels, size, action)
        occlusion = make_occlusion(self.config)
        return x if occlusion is None else occlusion(x), classes

    def _examples(self) -> Batches:
        for images, classes in zip(self.train_images.split(BATCH), self.train_labels.split(BATCH), strict=True):
            yield signed(images)[:, None], classes

    @torch.no_grad()
    def encode(self, images: UInt8[Tensor, "images side side"]) -> Float[Tensor, "images length channels"]:
        """Features of padded digits 0 … 255, as the head gets them."""
        self.method.model.eval()
        parts = images.split(BATCH)
        return torch.cat([self.method.head_features(signed(part.to(self.device))[:, None]) for part in parts])

    def train_pairs(self, count: int) -> Iterator[tuple[Tensor, Tensor]]:
        """Random training digits, and the same under random homographies: the same in all processes."""
        generator = torch.Generator().manual_seed(step_seed(self.seed, 0, "maps"))
        index = torch.randint(len(self.train_images), (count,), generator=generator)
        transformations = self.action.sample(count, generator)
        for part, t in zip(index.split(BATCH), transformations.split(BATCH), strict=True):
            x = signed(self.train_images[part.to(self.device)])[:, None]
            yield x, self.action.act(x, t)

    # Evaluation

    @torch.no_grad()
    def evaluate(self) -> HomnistResult:
        config = self.config
        self.method.model.eval()
        self.head.eval()
        scores = self.classify(self.test_set)
        pairs = evaluate_pairs(self.method, self.held_out(config.evaluation_pairs))
        metrics = {
            "accuracy": scores.correct.double().mean().item(),
            "accuracy_clean": self.accuracy(self.test_images, self.test_labels),
            **pairs.metrics,
            **pairs.latents,
            "test_images": len(scores.correct),
        }
        if len(self.validation_labels):
            copies = min(config.test_copies, VALIDATION_COPIES)
            perturbed = GeneratedTestSet(
                self.validation_images, self.validation_labels, copies, VALIDATION_SEED, self.test_action
            )
            metrics["accuracy_val"] = self.classify(perturbed).correct.double().mean().item()
            metrics["accuracy_clean_val"] = self.accuracy(self.validation_images, self.validation_labels)
        repetition = None
        if self.method.has_maps and composes(self.action):
            repetition = repeat_maps(self.method, self.held_out_twice(config.evaluation_pairs))
            metrics |= repetition.metrics
        curves = {"accuracy_by_strength": by_strength(scores), **pairs.curves}
        if config.occlusion is not None:
            covered = self.accuracy_by_covered_share(self.test_images, self.test_labels)
            curves["accuracy_by_covered_share"] = covered
            metrics["accuracy_covered"] = partial_views.mean_covered(covered)
            if len(self.validation_labels):
                covered = self.accuracy_by_covered_share(self.validation_images, self.validation_labels)
                metrics["accuracy_covered_val"] = partial_views.mean_covered(covered)
        operator, partial = learned_operator(self.method), self.partial_views()
        return HomnistResult(metrics, scores, pairs, operator, partial, repetition, curves=curves)

    def partial_views(self) -> PartialViews | None:
        """A few test digits behind occluders; None where the run is not about occlusion."""
        if self.config.occlusion is None:
            return None
        index = evenly(partial_views.COUNT, len(self.test_images))
        x = signed(self.test_images[index].to(self.device))[:, None]
        occluder = self._occluder(x, partial_views.SHOWN, torch.Generator().manual_seed(EVALUATION_SEED))
        return partial_views.partial_views(self.method, x, occluder, self.config.confidence == "given")

    def _occluder(self, x: Tensor, share: float, generator: torch.Generator) -> Occluder:
        """What stands in front of each of these images."""
        return draw_occluder(torch.full((len(x),), share), (x.shape[-2], x.shape[-1]), generator).to(x.device)

    @torch.no_grad()
    def accuracy_by_covered_share(
        self, images: UInt8[Tensor, "images side side"], labels: Int[Tensor, " images"]
    ) -> Curve:
        """Accuracy on digits under transformations, an occluder in front of each, by the share that it covers."""
        index = evenly(self.config.evaluation_pairs, len(images))
        perturbed = GeneratedTestSet(images[index], labels[index], 1, EVALUATION_SEED, self.test_action)
        mark = self.config.confidence == "given"
        accuracies = []
        for number, share in enumerate(partial_views.SHARES):
            generator = torch.Generator().manual_seed(step_seed(EVALUATION_SEED, number, "occluders"))
            correct = []
            for x, classes, _ in perturbed.batches(BATCH, self.device):
                x = self._occluder(x, share, generator).over(x, mark)
                correct.append(self._scores(self.method.head_features(x)).argmax(-1) == classes.to(x.device))
            accuracies.append(torch.cat(correct).double().mean().item())
        return partial_views.curve(accuracies, len(index), "accuracy")

    def accuracy(self, images: UInt8[Tensor, "images side side"], labels: Int[Tensor, " images"]) -> float:
        """Share of unperturbed digits classified correctly."""
        predicted = torch.cat([self._scores(part).argmax(-1) for part in self.encode(images).split(BATCH)])
        return (predicted.cpu() == labels).double().mean().item()

    @torch.no_grad()
    def classify(self, perturbed: PerturbedDigits) -> Scores:
        """Classify a perturbed set."""
        correct, strength = [], []
        for images, labels, transformations in perturbed.batches(BATCH, self.device):
            correct.append((self._scores(self.method.head_features(images)).argmax(-1) == labels).cpu())
            strength.append(self.action.strength(transformations).float().cpu())
        if self.action.unit == "half image sides":
            half = (self.test_images.shape[-1] - 1) / 2
            return Scores(torch.cat(correct), torch.cat(strength) * half, "mean displacement of the corners (pixels)")
        return Scores(torch.cat(correct), torch.cat(strength), f"strength of the transformation ({self.action.unit})")

    def _scores(self, features: Tensor) -> Tensor:
        with self.precision():
            return self.head(features)

    def held_out(self, count: int) -> Iterator[tuple[Tensor, ...]]:
        """Batches of `count` test digits at most, under homographies, and of other digits under the same ones."""
        total = len(self.test_images)
        index = evenly(count, total)
        generator = torch.Generator().manual_seed(step_seed(EVALUATION_SEED, 0))
        transformations = self.action.sample(total, generator)[index]
        for part, t in zip(index.split(BATCH), transformations.split(BATCH), strict=True):
            x, other = (
                signed(self.test_images[place].to(self.device))[:, None] for place in (part, (part + 1) % total)
            )
            yield x, self.action.act(x, t), other, self.action.act(other, t)

    def held_out_twice(self, count: int) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
        """Batches of `count` test digits at most, under homographies, and under these twice."""
        index = evenly(count, len(self.test_images))
        generator = torch.Generator().manual_seed(step_seed(EVALUATION_SEED, 0, "twice"))
        transformations = self.action.sample(len(index), generator)
        for part, t in zip(index.split(BATCH), transformations.split(BATCH), strict=True):
            x = signed(self.test_images[part].to(self.device))[:, None]
            once, twice = (self.action.act(x, power) for power in powers(self.action, t, 2))
            yield x, once, twice


def make_actions(name: str) -> tuple[Transformations, Transformations]:
    """Transformations of training and of the test set: the published test set is drawn from a narrower distribution.

    Raises:
        InputError: they need more than their name.
    """
    kind = ACTIONS.find(name)
    try:
        action = kind()
    except TypeError as error:
        others = ", ".join(other for other in ACTIONS if other != name)
        problem = f"--action {name} needs more than its name, e.g. the size of a grid"
        raise InputError(f"{problem}: choose another of {others}") from error
    return action, PUBLISHED_DISTRIBUTION if name == "homography" else action


def make_networks(config: HomnistConfig, side: int) -> Networks:
    """Untrained networks for images of side × side pixels.

    Raises:
        ValueError: the networks do not fit the images.
    """
    if config.architecture == "conv":
        networks = Networks.convolutional(config.conv, (side, side), 1)
    else:
        vit = replace(config.vit, image_size=(side, side))
        networks = Networks(ViTEncoder(vit), ViTDecoder(vit), vit.grid, vit.latent_channels)
    return networks.for_partial_views(config.confidence, 1)


def make_occlusion(config: HomnistConfig, views: int = 1) -> RandomOcclusion | None:
    """What covers images in training; None where nothing does."""
    return RandomOcclusion(config.occlusion, config.confidence == "given", views) if config.occlusion else None


def by_strength(scores: Scores) -> Curve:
    """Accuracy in twenty bins of equally many images, by the strength of their transformations."""
    finite = scores.strength.isfinite()
    strength, correct = scores.strength[finite], scores.correct[finite].double()
    bins = [part for part in strength.argsort(stable=True).tensor_split(20) if len(part)]
    return {
        "x": [strength[part].median().item() for part in bins],
        "y": [correct[part].mean().item() for part in bins],
        "count": [len(part) for part in bins],
        "x_label": scores.label,
        "y_label": "accuracy",
    }
