"""homNIST: digits under homographies, recognised by a head that has seen none (paper §5.1).

An encoder is pre-trained on pairs of a digit and the same digit under a random homography, without labels, and frozen.
A head is trained on its latents of digits as they are, and tested on digits under homographies. It can be right only as
far as the latents are equivariant, so that an invariant head sees through the homography, and still tell digits apart.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, get_args

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from niso.data.digits import of_folder, read_digits
from niso.data.digits.homnist import GeneratedTestSet, PerturbedDigits
from niso.data.evenly import evenly
from niso.data.squares import signed
from niso.errors import InputError
from niso.experiments import partial_views
from niso.experiments.experiment import PIXELS, Experiment, Phase, check_batch
from niso.experiments.head import (
    ACCURACY_CHANCE,
    OF_FROZEN,
    accuracy_chance,
    classes_of,
    frozen_phase,
    make_head,
    try_head,
)
from niso.experiments.homnist import classification
from niso.experiments.homnist.classification import Scores
from niso.experiments.homnist.presets import METHOD_SETTINGS, PRESETS, Architecture, HomnistConfig
from niso.experiments.homnist.published import PUBLISHED
from niso.experiments.homnist.sampling import DigitSampling, make_occlusion
from niso.experiments.homnist.split import Part, Split, copied, perturbed_test_digits, split
from niso.experiments.own import Own
from niso.experiments.partial_views import PartialViews
from niso.files.digests import digest
from niso.geometry.action import composes
from niso.geometry.make import make_action
from niso.methods import METHODS, methods_of
from niso.methods.evaluation.latents import INVARIANTS_ROUNDING, LATENT_METRICS
from niso.methods.evaluation.operator import Operator, learned_operator
from niso.methods.evaluation.pairs import EQUIVARIANCE_ERROR, PAIR_METRICS, PairEvaluation, evaluate_pairs
from niso.methods.evaluation.repetition import REPETITION_METRICS, Repetition, repeat_maps
from niso.methods.method import Method, Networks
from niso.random import EVALUATION_SEED
from niso.results import Curve, Metric, Result

VALIDATION_SEED = 2_023
"""Of the homographies of validation digits, others than those of the test set."""
VALIDATION_COPIES = 4
"""Homographies of each validation digit, at most."""
_AS_TRAINED = replace(
    EQUIVARIANCE_ERROR,
    text=f"{EQUIVARIANCE_ERROR.text}, under transformations as in pre-training: homographies that are stronger than "
    "those of the test set, by which the paper measures it",
)


@dataclass
class HomnistResult(Result):
    """What figures of homNIST are drawn from."""

    action: str
    scores: Scores
    pairs: PairEvaluation
    operator: Operator | None
    partial: PartialViews | None
    repetition: Repetition | None


class Homnist(Experiment):
    """The homNIST experiment, see the module."""

    config: HomnistConfig
    method: Method
    name = "homnist"
    summary = (
        "The encoder is trained, without labels, on digits and the same digits under random transformations, by "
        "default homographies: on pairs, or on groups that share one. It is then frozen, and a head learns to classify "
        "its latents of upright digits. The test digits are under transformations that the head has never seen: it "
        "recognises them as far as these act on the latents by isometries, which an equivariant head sees through, and "
        "as far as the latents tell digits apart."
    )
    config_class = HomnistConfig
    presets = PRESETS
    method_settings = METHOD_SETTINGS
    evaluation_settings = frozenset({"test_digits", "test_copies"})
    pictures_of_curves = frozenset({"accuracy", "covered"})
    preset_notes: ClassVar[dict[str, str]] = {
        "quick": "scikit-learn's digits: two to five minutes on one core; 95 % by niso-group",
        "small": "MNIST, 0.37 M parameters: a quarter of an hour on one core; 98 % by niso-group",
        "medium": "MNIST, twice the steps: forty minutes on one core, far less with bfloat16; 98.6 % by niso-group",
        "large": "MNIST, 1.4 M parameters, all test images: half an hour with bfloat16; 99.4 % by niso-group",
        "long": "published losses, 50,000 steps: 80 minutes or more; 91 % by niso, 96 % with --multiplicity 0.01",
        "paper": "the paper's text, 50,000 steps: for a GPU; not run here",
        "released": "the released code's settings: minutes of a GPU; 71 to 79 % by niso, 81 to 87 % by triplets",
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
        ACCURACY_CHANCE,
        *(_AS_TRAINED if metric is EQUIVARIANCE_ERROR else metric for metric in PAIR_METRICS),
        *LATENT_METRICS,
        INVARIANTS_ROUNDING,
        *REPETITION_METRICS,
        Metric(
            "accuracy_val", "accuracy on perturbed validation digits: training digits that nothing trained on", "higher"
        ),
        Metric("accuracy_clean_val", "the same without perturbation", "higher"),
        Metric(
            "accuracy_covered",
            "accuracy on perturbed test digits, at most evaluation_pairs, of which occluders cover 10, 20, 30 and 40 % "
            "(mean of the four)",
            "higher",
        ),
        Metric("accuracy_covered_val", "the same of validation digits", "higher"),
        Metric("test_images", "perturbed test images: digits times homographies of each"),
    )
    figures = "niso.experiments.homnist.figures"
    published = PUBLISHED

    @classmethod
    def default_method(cls, config: HomnistConfig, data_dir: Path | None) -> str:
        """Groups: their maps know T alone. On validation digits they are the best at `quick`, and within 0.7 points of
        the best at `small` (docs/experiments/homnist.md). The paper's method is "niso", pairs."""
        return "niso-group"

    def build(self) -> None:
        config = self.config
        data = read_digits(config.digits, self.data_dir)
        self.content = digest(*(part.numpy().tobytes() for part in data))
        """A word that changes where a digit or a class does, whichever are held out."""
        train, validation, test = split(data, config)
        self.split = Split(train.to(self.device), validation, test)
        self.action = make_action(
            "--action", config.action, "images", (1, train.side, train.side), config.action_settings
        )
        self.test_action = getattr(self.action, "test_distribution", lambda: self.action)()
        self.test_set = perturbed_test_digits(config, test, self.test_action, self.data_dir)
        self.method = self.make_method(
            lambda: make_networks(config, train.side), observed=f"digits of {train.side}×{train.side}"
        )
        composing = self.method_name if self.method.views == 3 else "--first-view transformed"
        if (self.method.views == 3 or config.first_view == "transformed") and not composes(self.action):
            raise InputError(f"--action {config.action} cannot be applied twice, as {composing} needs it")
        views, group = self.method.views, self.method.group
        self.sampling = DigitSampling(config, self.seed, self.split, self.action, views, group)
        self.head: nn.Module = nn.Identity()
        check_batch(self.method, config.training)
        if config.occlusion:
            check_batch(self.method, config.completion)
        try_head(self.method, config, next(self.sampling.examples())[0], self.classes)

    @classmethod
    def methods(cls) -> tuple[str, ...]:
        return methods_of(views=3, grouped=True)

    @classmethod
    def unread(cls, config: HomnistConfig, method: str, data_dir: Path | None) -> dict[str, str]:
        unread = super().unread(config, method, data_dir)
        unread |= OF_FROZEN
        unread |= {f"{kind}.image_size": "the digits have a size of their own" for kind in get_args(Architecture)}
        unread |= {f"{kind}.image_channels": "digits have one channel" for kind in get_args(Architecture)}
        unread |= {
            kind: f"--architecture is {config.architecture}, not {kind}"
            for kind in get_args(Architecture)
            if kind != config.architecture
        }
        if config.digits not in (readers := of_folder()):
            others = " or ".join(f"--digits {name}" for name in readers)
            unread["data_dir"] = f"--digits {config.digits} are of no folder; add {others} to read it"
        return unread | METHODS.find(method).heads_unread(config) | config.views_unread()

    def facts(self) -> dict[str, Any]:
        side, classes = self.split.train.side, list(range(self.classes))
        data = {"name": self.config.digits, "kind": "images", "shape": [1, side, side], "classes": classes}
        return {"data": {**data, **PIXELS, "mean": [self.split.train.mean]}, "content": self.content}

    @classmethod
    def rebuild(
        cls, config: HomnistConfig, facts: Mapping[str, Any], own: Own | None = None
    ) -> tuple[HomnistConfig, Networks]:
        return config, make_networks(config, facts["data"]["shape"][-1])

    @property
    def classes(self) -> int:
        """Number of classes of digits."""
        return int(self.split.train.labels.max()) + 1

    # Training

    def phases(self) -> Iterator[Phase]:
        config, method, sampling = self.config, self.method, self.sampling
        yield Phase("pretrain", method.objective(), sampling.related, config.training)
        method.after_pretraining(sampling.train_pairs, self.seed)
        if occlusion := make_occlusion(config, method.views):
            objective, optimisation = method.completion(occlusion), config.completion
            yield Phase("completion", objective, lambda step: sampling.related(step, optimisation), optimisation)
        first = next(sampling.examples())[0]
        self.head = make_head(method, config, first, self.classes)
        once = not config.occlusion and config.head.steps * config.head.batch_size >= len(self.split.train.labels)
        augmented, examples = method.augmented_head, sampling.examples if once else None
        yield frozen_phase(method, self.head, config, first, lambda step: sampling.labelled(augmented), examples)

    # Evaluation

    @torch.no_grad()
    def evaluate(self) -> HomnistResult:
        config, method, sampling = self.config, self.method, self.sampling
        _, validation, test = self.split
        scores = self.classify(self.test_set)
        pairs = evaluate_pairs(method, sampling.held_out(config.evaluation_pairs))
        metrics = {
            "accuracy": scores.correct.double().mean().item(),
            "accuracy_clean": self.accuracy(test),
            ACCURACY_CHANCE.key: accuracy_chance(test.labels),
            **pairs.metrics,
            **pairs.latents,
            "test_images": len(scores.correct),
        }
        if len(validation.labels):
            copies = min(config.test_copies, VALIDATION_COPIES)
            perturbed = GeneratedTestSet(*validation, copies, VALIDATION_SEED, self.test_action)
            metrics["accuracy_val"] = self.classify(perturbed).correct.double().mean().item()
            metrics["accuracy_clean_val"] = self.accuracy(validation)
        repetition = None
        if method.has_maps and composes(self.action):
            repetition = repeat_maps(method, sampling.held_out_twice(config.evaluation_pairs))
            metrics |= repetition.metrics
        curves = {"accuracy_by_strength": classification.by_strength(scores), **pairs.curves}
        if config.occlusion is not None:
            covered = self.accuracy_by_covered_share(test)
            curves["accuracy_by_covered_share"] = covered
            metrics["accuracy_covered"] = partial_views.mean_covered(covered)
            if len(validation.labels):
                covered = self.accuracy_by_covered_share(validation)
                metrics["accuracy_covered_val"] = partial_views.mean_covered(covered)
        operator, partial = learned_operator(method), self.partial_views()
        notes = (note,) if (note := copied(self.split)) else ()
        return HomnistResult(
            metrics, self.config.action, scores, pairs, operator, partial, repetition, curves=curves, notes=notes
        )

    @torch.no_grad()
    def predict(self, x: Float[Tensor, "batch 1 side side"]) -> Int[Tensor, " batch"]:
        """Classes of images as networks take them."""
        self.method.model.eval()
        return classes_of(self.head, self.method.head_features(x), self.precision)

    def accuracy(self, digits: Part) -> float:
        """Share of upright digits classified correctly."""
        return classification.accuracy(self.predict, digits, self.device)

    def classify(self, perturbed: PerturbedDigits) -> Scores:
        """Classify digits under transformations, those that are tested under."""
        return classification.classify(self.predict, perturbed, self.test_action, self.device)

    def accuracy_by_covered_share(self, digits: Part) -> Curve:
        """Accuracy on some of these digits under transformations, by the share that an occluder covers."""
        some = digits.at(evenly(self.config.evaluation_pairs, len(digits.labels)))
        perturbed = GeneratedTestSet(*some, 1, EVALUATION_SEED, self.test_action)
        mark = self.config.confidence == "given"
        return classification.accuracy_by_covered_share(self.predict, perturbed, mark, self.device)

    def partial_views(self) -> PartialViews | None:
        """A few test digits behind occluders; None where the run is not about occlusion."""
        if self.config.occlusion is None:
            return None
        images = self.split.test.images
        x = signed(images[evenly(partial_views.COUNT, len(images))].to(self.device))[:, None]
        generator = torch.Generator().manual_seed(EVALUATION_SEED)
        occluder = classification.occluder(x, partial_views.SHOWN, generator)
        return partial_views.covered_views(self.method, x, occluder, self.config.confidence == "given")


def make_networks(config: HomnistConfig, side: int) -> Networks:
    """Untrained networks for images of side × side pixels.

    Raises:
        ValueError: the networks do not fit the images.
    """
    if config.architecture == "conv":
        networks = Networks.convolutional(config.conv, (side, side), 1)
    else:
        networks = Networks.transformer(config.vit, (side, side), 1)
    return networks.for_partial_views(config.confidence, 1)
