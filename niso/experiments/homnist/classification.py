"""How digits are classified: as they are, under transformations, and behind occluders."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from niso.data.digits.homnist import GeneratedTestSet, PerturbedDigits
from niso.data.squares import signed
from niso.experiments import partial_views
from niso.experiments.homnist.split import Part
from niso.geometry.action import Transformations
from niso.geometry.occluders import Occluder, draw_occluder
from niso.random import EVALUATION_SEED, step_generator
from niso.results import Curve

BATCH = 250
"""Images encoded at once where nothing is trained. Of 500, a CPU takes twice as long for each with wide networks."""
COVERED = 500
"""Images whose occluders are drawn together; of another number, others would be drawn."""
Predict = Callable[[Float[Tensor, "batch 1 side side"]], Int[Tensor, " batch"]]
"""Classes of images as networks take them, on the training device."""


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


def accuracy(predict: Predict, digits: Part, device: torch.device) -> float:
    """Share of upright digits classified correctly."""
    predicted = torch.cat([predict(signed(part.to(device))[:, None]) for part in digits.images.split(BATCH)])
    return (predicted.cpu() == digits.labels).double().mean().item()


def classify(predict: Predict, perturbed: PerturbedDigits, action: Transformations, device: torch.device) -> Scores:
    """Classify digits under transformations of `action`; where it has one, by its `corner_displacement`."""
    in_pixels = getattr(action, "corner_displacement", None)
    correct, strength = [], []
    for images, labels, transformations in perturbed.batches(BATCH, device):
        correct.append((predict(images) == labels).cpu())
        side = images.shape[-1]
        by = in_pixels(transformations, side) if in_pixels else action.strength(transformations)
        strength.append(by.float().cpu())
    label = "mean displacement of the corners (pixels)"
    if not in_pixels:
        label = f"strength of the transformation ({action.unit})"
    return Scores(torch.cat(correct), torch.cat(strength), label)


def accuracy_by_covered_share(predict: Predict, perturbed: GeneratedTestSet, mark: bool, device: torch.device) -> Curve:
    """Accuracy on digits under transformations, an occluder in front of each, by the share that it covers.

    Args:
        mark: hidden pixels are NaN.
    """
    accuracies = []
    for number, share in enumerate(partial_views.SHARES):
        generator = step_generator(EVALUATION_SEED, number, "occluders")
        correct = []
        for x, classes, _ in perturbed.batches(COVERED, device):
            x = occluder(x, share, generator).over(x, mark)
            correct.append(predict(x) == classes.to(x.device))
        accuracies.append(torch.cat(correct).double().mean().item())
    return partial_views.curve(accuracies, len(perturbed), "accuracy")


def occluder(x: Float[Tensor, "batch 1 side side"], share: float, generator: torch.Generator) -> Occluder:
    """What stands in front of each of these images, over this share of it."""
    return draw_occluder(torch.full((len(x),), share), (x.shape[-2], x.shape[-1]), generator).to(x.device)


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
