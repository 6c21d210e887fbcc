"""Figures of a homNIST result, in the order that its report shows them."""

from __future__ import annotations

from collections.abc import Iterator

from niso import figures
from niso.experiments import map_figures
from niso.experiments.homnist.experiment import HomnistResult
from niso.report import Picture


def accuracy(result: HomnistResult) -> Picture:
    """Share of correct test images against the strength of the transformation."""
    correct = result.scores.correct
    accuracy = correct.double().mean().item()
    return Picture(
        "accuracy",
        "Accuracy on the perturbed test set against the strength of the transformation, in twenty bins of equally many "
        "images. The head was trained on digits as they are, of strength zero (the autoencoder's: on randomly "
        "transformed ones); a method whose latents are equivariant keeps its accuracy as transformations grow.",
        figures.accuracy_by_strength(
            result.curves["accuracy_by_strength"], accuracy, f"{100 * accuracy:.2f} % of {len(correct):,} images"
        ),
    )


def covered(result: HomnistResult) -> Iterator[Picture]:
    """Accuracy against the share of the image that an occluder covers."""
    curve = result.curves.get("accuracy_by_covered_share")
    if curve is not None:
        yield Picture(
            "covered",
            "Accuracy on perturbed test digits against the share of the image that an occluder covers: a rectangle or "
            "a blob, grey or textured. Dashed: with nothing covered.",
            figures.accuracy_by_strength(
                curve,
                curve["y"][0],
                f"{100 * curve['y'][0]:.2f} % of {curve['count'][0]:,} images with nothing covered",
            ),
        )


def digits(result: HomnistResult) -> Picture:
    """Held-out digits, transformed, and what the method makes of them."""
    return map_figures.transported(
        "digits", f"Held-out digits, each transformed at random ({result.action}).", result.pairs, map_figures.colours
    )


FIGURES = (
    accuracy,
    covered,
    lambda result: map_figures.seen_in_part(result.partial),
    digits,
    lambda result: map_figures.same_transformation(result.pairs, "digit", "transformation"),
    lambda result: map_figures.repeated(result.repetition),
    lambda result: map_figures.singular_values(result.pairs),
    lambda result: map_figures.eigenfunctions(result.operator),
    lambda result: map_figures.mask(result.operator, result.pairs.maps, "a few transformations"),
    lambda result: map_figures.mass(result.operator),
)
