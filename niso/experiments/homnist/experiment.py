"""homNIST: digits under homographies, recognised by a head that has seen none (paper §5.1).

An encoder is pre-trained on pairs of a digit and the same digit under a random homography, without labels, and frozen.
A head is trained on its latents of digits as they are, and tested on digits under homographies. It can be right only as
far as the latents are equivariant, so that an invariant head sees through the homography, and still tell digits apart.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from niso.data.digits.homnist import GeneratedTestSet, PerturbedDigits, PublishedTestSet, labelled, related
from niso.data.digits.mnist import digits, mnist, pad, signed
from niso.errors import InputError
from niso.experiments.experiment import Curve, Experiment, Phase
from niso.experiments.homnist.methods import CLASSES, METHODS, make_model, make_objective
from niso.experiments.homnist.presets import PRESETS, HomnistConfig
from niso.experiments.homnist.published import PUBLISHED
from niso.geometry import homographies as homography
from niso.methods import Autoencoder, NeuralFourierTransform
from niso.methods.common import make_head, pair_figures
from niso.networks import ClassificationObjective
from niso.results import Metric
from niso.random import local_part, process, step_seed

if TYPE_CHECKING:
    from niso.report import Picture

BATCH = 500
"""Images encoded at once where nothing is trained."""
EVALUATION_SEED = 20_241_210
"""Of the homographies of held-out pairs, the same for every run (the paper's conference date)."""
VALIDATION_SEED = 2_023
"""Of the homographies of validation digits, others than those of the test set."""
VALIDATION_COPIES = 4
"""Homographies of each validation digit, at most."""


def spread(count: int, total: int) -> Int[Tensor, " count"]:
    """Indices of `count` out of `total`, or of all, spread evenly: MNIST's first test digits are the easier ones."""
    count = min(count, total)
    return torch.arange(count) * total // count


class Scores(NamedTuple):
    """How the perturbed test set was classified, an entry an image, on the CPU."""

    correct: Bool[Tensor, " images"]
    strength: Float[Tensor, " images"]


class Pairs(NamedTuple):
    """Held-out digits ψ, other digits ψ′, and both under the same homographies, on the training device."""

    x: Float[Tensor, "pairs 1 side side"]
    tx: Float[Tensor, "pairs 1 side side"]
    other: Float[Tensor, "pairs 1 side side"]
    t_other: Float[Tensor, "pairs 1 side side"]


class Homnist(Experiment):
    """The homNIST experiment, see the module."""

    name = "homnist"
    summary = (
        "Pairs of a digit and the same digit under a random homography are all that the encoder is trained on, without "
        "labels. It is then frozen, and a head learns to classify its latents of upright digits. The test digits are "
        "under homographies that the head has never seen: it recognises them as far as the homographies act on the "
        "latents by isometries, which an equivariant head sees through, and as far as the latents tell digits apart."
    )
    config_class = HomnistConfig
    presets = PRESETS
    methods: ClassVar[tuple[str, ...]] = tuple(METHODS)
    metrics: ClassVar[tuple[Metric, ...]] = (
        Metric("accuracy", "share of perturbed test images classified correctly", "higher"),
        Metric("accuracy_clean", "share of unperturbed test digits classified correctly", "higher"),
        Metric("accuracy_val", "accuracy on validation digits, which are training digits that nothing was trained on", "higher"),
        Metric("accuracy_clean_val", "the same without perturbation", "higher"),
        Metric("equivariance_error", "‖τa − b‖² / ‖b‖² on test digits under the pre-training's homographies (mean)", "lower"),
        Metric("equivariance_error_centred", "the same, relative to what is left of b without the mean over all digits", "lower"),
        Metric("reconstruction_error", "mean absolute error of D(τ E(ψ)) against Tψ, black being −1 and white 1; for the autoencoder, of D(E(Tψ))", "lower"),
        Metric("relative_map_error", "‖τ′a − b‖² / ‖b‖² with the τ′ of another digit under the same homography (mean)", "lower"),
        Metric("test_images", "perturbed test images: digits times homographies of each"),
        Metric("steps", "optimiser steps of both phases"),
        Metric("seconds", "seconds of training of both phases", "lower", unit="s"),
        Metric("seconds_pretrain", "seconds of pre-training", "lower", unit="s"),
        Metric("seconds_head", "seconds of the training of the head", "lower", unit="s"),
    )
    targets: ClassVar[dict[str, dict[str, str]]] = {}
    published = PUBLISHED

    def __init__(
        self, config: HomnistConfig, method: str, seed: int, data_dir: Path | None, device: torch.device
    ) -> None:
        super().__init__(config, method, seed, data_dir, device)
        self.kind = METHODS[method]
        data = mnist(data_dir) if config.digits == "mnist" else digits()
        images, labels = pad(data.train_images), data.train_labels
        kept_apart = torch.zeros(len(labels), dtype=torch.bool)
        kept_apart[spread(round(config.validation * len(labels)), len(labels))] = True
        self.validation_images, self.validation_labels = images[kept_apart], labels[kept_apart]
        self.train_images, self.train_labels = images[~kept_apart].to(device), labels[~kept_apart].to(device)
        self.test_images, self.test_labels = pad(data.test_images), data.test_labels
        if config.test_digits is not None and not config.published:
            index = spread(config.test_digits, len(self.test_labels))
            self.test_images, self.test_labels = self.test_images[index], self.test_labels[index]
        self.test_set = self._test_set()
        try:
            model, self.grid = make_model(config, self.kind, self.train_images.shape[-1])
        except ValueError as error:
            raise InputError(str(error)) from error
        self.model = model.to(device)
        self.head: nn.Module = nn.Identity()
        self.scores: Scores | None = None
        batch = config.training.batch_size // (process()[1] * config.training.accumulation)
        if batch % self.group:
            raise InputError(f"a batch of {batch} pairs cannot be cut into groups of {self.group}: choose a multiple")

    @property
    def group(self) -> int:
        """Digits of a batch that share one T."""
        return self.config.group if self.kind.grouped else 1

    def _test_set(self) -> PerturbedDigits:
        config = self.config
        if not config.published:
            return GeneratedTestSet(self.test_images, self.test_labels, config.test_copies)
        found = sorted(self.data_dir.glob("*.mat")) if self.data_dir is not None else []
        if len(found) != 1 or config.digits != "mnist" or config.test_digits is not None:
            raise InputError(
                "--published needs MNIST, all its test digits, and one .mat file in --data-dir, where "
                f"{len(found)} are: put homNIST's there, or leave --published out to have a test set generated"
            )
        return PublishedTestSet(found[0], config.test_copies)

    # Training

    def phases(self) -> Iterator[Phase]:
        config = self.config
        yield Phase("pretrain", make_objective(config, self.kind, self.model), self.sample, config.training)
        if isinstance(self.model, NeuralFourierTransform) and config.nft_epochs:
            self.model.diagonalise(self.maps(config.nft_maps), config.nft_epochs, seed=self.seed)
        examples = self.encode(self.train_images[:BATCH])
        self.head = make_head(config, self.model, examples, CLASSES).to(self.device)
        yield Phase("head", *self._head_training(), config.head)

    def sample(self, step: int) -> tuple[Tensor, ...]:
        """Pairs (ψ, Tψ), triplets (ψ, Tψ, T²ψ) or groups of pairs of training digits: this process's part."""
        size = self.config.training.batch_size // process()[1]
        return related(self.train_images, size, self.kind.order, self.group)

    def _head_training(self) -> tuple[nn.Module, Any]:
        """Objective and sampler of the head. What a frozen backbone makes of digits as they are is computed once."""
        config, backbone = self.config, self.model
        images, labels, size = self.train_images, self.train_labels, config.head.batch_size
        augmented = isinstance(backbone, Autoencoder)
        if augmented or config.head.steps * size < len(images):

            def drawn(step: int) -> tuple[Tensor, Tensor]:
                return labelled(images, labels, size // process()[1], augmented)

            return ClassificationObjective(backbone, self.head), drawn
        features = cache(lambda: self.encode(images))  # in the first step: not where the head is trained already

        def encoded(step: int) -> tuple[Tensor, Tensor]:
            index = local_part(torch.randint(len(images), (size,))).to(self.device)
            return features()[index], labels[index]

        return ClassificationObjective(backbone, self.head, encode=nn.Identity()), encoded

    @torch.no_grad()
    def encode(self, images: Tensor) -> Float[Tensor, "images length channels"]:
        """Features of padded digits 0 … 255, as the head gets them."""
        self.model.eval()
        return torch.cat([self._features(signed(part.to(self.device))[:, None]) for part in images.split(BATCH)])

    def _features(self, images: Tensor) -> Tensor:
        """Latents in the precision of the run, never below float32."""
        with self.autocast():
            latents = self.model.encode(images)
        return latents.to(torch.promote_types(latents.dtype, torch.float32))

    @torch.no_grad()
    def maps(self, count: int) -> Float[Tensor, "count rank rank"]:
        """Maps of random training digits under random homographies, the same in all processes."""
        self.model.eval()
        generator = torch.Generator().manual_seed(step_seed(self.seed, 0, "maps"))
        index = torch.randint(len(self.train_images), (count,), generator=generator)
        matrices = homography.matrix(homography.sample_coefficients(count, generator, torch.float64)).float()
        found = []
        for part, t in zip(index.split(BATCH), matrices.to(self.device).split(BATCH), strict=True):
            x = signed(self.train_images[part.to(self.device)])[:, None]
            found.append(self._map(x, homography.warp(x, t, background=-1.0)))
        return torch.cat(found)

    def _map(self, x: Tensor, tx: Tensor) -> Tensor:
        assert not isinstance(self.model, Autoencoder)
        return self.model.map_between(x, tx)

    # Evaluation

    @torch.no_grad()
    def evaluate(self) -> dict[str, float]:
        self.model.eval()
        self.head.eval()
        self.scores = self.classify(self.test_set)
        held_out = self.pairs(self.config.evaluation_pairs)
        figures = {
            "accuracy": self.scores.correct.double().mean().item(),
            "accuracy_clean": self.accuracy(self.test_images, self.test_labels),
        }
        if len(self.validation_labels):
            copies = min(self.config.test_copies, VALIDATION_COPIES)
            perturbed = GeneratedTestSet(self.validation_images, self.validation_labels, copies, VALIDATION_SEED)
            figures["accuracy_val"] = self.classify(perturbed).correct.double().mean().item()
            figures["accuracy_clean_val"] = self.accuracy(self.validation_images, self.validation_labels)
        return {
            **figures,
            **pair_figures(self.model, zip(*(view.split(BATCH) for view in held_out), strict=True)),
            "test_images": len(self.scores.correct),
        }

    def accuracy(self, images: Tensor, labels: Tensor) -> float:
        """Share of unperturbed digits classified correctly."""
        predicted = torch.cat([self.head(part).argmax(-1) for part in self.encode(images).split(BATCH)])
        return (predicted.cpu() == labels).double().mean().item()

    @torch.no_grad()
    def classify(self, perturbed: PerturbedDigits) -> Scores:
        """Classify a perturbed set."""
        self.model.eval()
        self.head.eval()
        correct, strength = [], []
        for images, labels, matrices in perturbed.batches(BATCH, self.device):
            correct.append((self.head(self._features(images)).argmax(-1) == labels).cpu())
            strength.append(homography.strength(matrices).cpu())
        return Scores(torch.cat(correct), torch.cat(strength))

    def curves(self) -> dict[str, Curve]:
        """Accuracy in twenty bins of equally many images, by how far their corners are moved."""
        correct, strength = self.scores or self.classify(self.test_set)
        finite = strength.isfinite()
        pixels = strength[finite] * (self.test_images.shape[-1] - 1) / 2
        bins = [part for part in pixels.argsort(stable=True).tensor_split(20) if len(part)]
        right = correct[finite].double()
        return {
            "accuracy_by_strength": {
                "x": [pixels[part].median().item() for part in bins],
                "y": [right[part].mean().item() for part in bins],
                "count": [len(part) for part in bins],
                "x_label": "mean displacement of the corners (pixels)",
                "y_label": "accuracy",
            }
        }

    def pairs(self, count: int) -> Pairs:
        """`count` held-out pairs at most; the same for every run."""
        total = len(self.test_images)
        index = spread(count, total)
        generator = torch.Generator().manual_seed(step_seed(EVALUATION_SEED, 0))
        coefficients = homography.sample_coefficients(total, generator, torch.float64)[index]
        matrices = homography.matrix(coefficients).float().to(self.device)
        x, other = (signed(self.test_images[i].to(self.device))[:, None] for i in (index, (index + 1) % total))
        warped = (homography.warp(view, matrices, background=-1.0) for view in (x, other))
        return Pairs(x, next(warped), other, next(warped))

    def pictures(self) -> list[Picture]:
        from niso.experiments.homnist.figures import pictures

        return pictures(self)
