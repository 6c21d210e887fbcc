"""Figures of maps, of what constrains them, and of what they predict, that several experiments share."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import numpy as np
from jaxtyping import Float
from torch import Tensor

from niso import figures
from niso.experiments.partial_views import PartialViews
from niso.methods.evaluation.operator import Operator
from niso.methods.evaluation.pairs import Maps, PairEvaluation
from niso.methods.evaluation.repetition import Repetition
from niso.report import Picture

LARGEST = 3.0
"""Entries of unconstrained maps, which may have any size, are cut off at it."""
MIDDLE = "the slice in the middle of the first axis"
MAXIMUM = "the maximum along the first axis"
"""What is drawn of volumes."""
EMPTY = 0.1
"""Volumes are nearly empty if their median is at most this share of their range above the smallest value."""


def same_transformation(pairs: PairEvaluation, thing: str, transformation: str, count: int = 6) -> Iterator[Picture]:
    """Maps of two observations under each of a few transformations; nothing where there are none.

    Args:
        thing, transformation: what they are called.
    """
    maps = pairs.maps
    if maps is None or maps.other is None:
        return
    first, second = (tau[:count].clamp(-LARGEST, LARGEST).abs() for tau in (maps.own, maps.other))
    yield Picture(
        "maps",
        f"{_title(maps)}. A column is one {transformation}; the rows are two {thing}s that it was applied to. "
        "Where the maps know the transformation alone, the rows are alike.",
        figures.image_rows([(f"one {thing}", first), (f"another {thing}", second)]),
    )


def transported(
    name: str, caption: str, pairs: PairEvaluation, colours: Callable[[Tensor], Tensor], count: int = 8
) -> Picture:
    """Held-out observations, what their transformations make of them, and what the method predicts.

    Args:
        name: of the picture.
        colours: observations (count, …) to colour images (count, height, width, 3) in −1 … 1.
    """
    rows = [(title, colours(views[:count])) for title, views in pairs.views.items()]
    return Picture(name, f"{caption} {rows_of(pairs)}", figures.image_rows(rows, (-1.0, 1.0)))


def repeated(repetition: Repetition | None) -> Iterator[Picture]:
    """Transformations once and twice, and what the squares of maps predict; nothing where there are none."""
    if repetition is None:
        return
    yield Picture(
        "repetition",
        "Held-out observations, transformed once and twice, and T²ψ as it is predicted by the square of the map τ "
        "that was solved from ψ and Tψ alone. A map that represents T does so in any power.",
        figures.image_rows([(name, colours(view)) for name, view in repetition.views.items()], (-1.0, 1.0)),
    )


def seen_in_part(views: PartialViews | None) -> Iterator[Picture]:
    """Images behind occluders, how far latent points are trusted, and reconstructions; nothing where there are none."""
    if views is None:
        return
    rows = [("ψ, covered", colours(views.seen)), ("share of a cell that is seen", views.visible)]
    said = "The method trusts all latent points alike."
    if views.confidence is not None:
        rows.append(("confidence", views.confidence))
        trusted = views.confidence
        parts = ((trusted[views.visible == 0], "covered"), (trusted[views.visible == 1], "seen"))
        means = [f"{part.mean():.2f} where their cell is {name}" for part, name in parts if len(part)]
        said = f"The method trusts latent points {' and '.join(means)} (means)." if means else ""
    rows += [("D E(ψ, covered)", colours(views.reconstructions)), ("ψ", colours(views.whole))]
    yield Picture(
        "seen_in_part",
        "Held-out images with an occluder in front, how far the latent points are seen and trusted, what is "
        f"reconstructed from the coefficients, and the images without the occluder. {said}",
        figures.image_rows(rows, (-1.0, 1.0)),
    )


def rows_of(pairs: PairEvaluation) -> str:
    """What the rows of `transported` are."""
    if pairs.maps is None:
        return "Rows: ψ, Tψ, and the autoencoder's reconstructions of Tψ."
    words = "Rows: ψ, Tψ, the reconstruction of ψ, and Tψ as it is predicted from ψ by the map τ solved from the pair"
    if pairs.maps.other is None:
        return f"{words}."
    return (
        f"{words}, and by the map τ′ solved from another observation under the same transformation, which cannot carry "
        "anything of this one's content."
    )


def colours(images: Float[Tensor, "count channels height width"]) -> Float[Tensor, "count height width 3"]:
    """Images of 3 channels as they are, of any other number by their first, as `image_rows` shows colours."""
    shown = images if images.shape[1] == 3 else images[:, :1].expand(-1, 3, -1, -1)
    return shown.float().permute(0, 2, 3, 1)


def nearly_empty(volumes: Float[Tensor, "count channels depth height width"]) -> bool:
    """Whether most voxels are about as dark as the darkest, so that slices may miss what there is to see."""
    low, high = volumes.aminmax()
    return bool(volumes.median() <= low + EMPTY * (high - low))


def flattened(
    volumes: Float[Tensor, "count channels depth height width"], maximum: bool
) -> Float[Tensor, "count channels height width"]:
    """`MAXIMUM` of volumes, or `MIDDLE`."""
    return volumes.amax(2) if maximum else volumes[:, :, volumes.shape[2] // 2]


def mask(operator: Operator | None, maps: Maps | None, pairs: str) -> Iterator[Picture]:
    """The mask of eigenvalues beside maps under it; `pairs` says what these are a mean over."""
    if operator is None or operator.mask is None or maps is None:
        return
    yield Picture(
        "mask",
        "The mask exp(−|λᵢ − λⱼ|) that maps are solved under, eigenvalues ascending: blocks near one are "
        f"eigenspaces whose functions may mix. Beside it |τ_Ω|, the mean over {pairs}.",
        figures.matrix_pair(operator.mask, maps.own.abs().mean(0), ("mask", "mean |τ_Ω|")),
    )


def singular_values(pairs: PairEvaluation | None, observations: float = math.inf) -> Iterator[Picture]:
    """Singular values of the coefficients; nothing where there are no maps, or there is one value. Where pairs are made
    of fewer `observations`, the caption says so."""
    curve = pairs.curves.get("singular_values") if pairs else None
    if curve is None or len(curve["x"]) == 1:
        return
    sizes, count = np.array(curve["y"]), curve["count"][0]
    of = f" of {observations:,.0f} observations" if observations < count else ""
    yield Picture(
        "singular_values",
        f"Singular values of the coefficients a, relative to the first: the mean over {count:,} held-out "
        f"pairs{of}. {(sizes > 0.1).sum()} of {len(sizes)} are above 0.1. Latents have about as many directions as "
        "values are not small; where that is one, invariants can tell little apart.",
        figures.decay(sizes, curve["x_label"], curve["y_label"]),
    )


def eigenfunctions(operator: Operator | None) -> Iterator[Picture]:
    """Eigenfunctions on the latent grid; nothing where the method learns no operator."""
    if operator is None:
        return
    functions, grid = _pictured(operator.drawn.eigenfunctions, operator.drawn_grid)
    yield Picture(
        "eigenfunctions",
        f"Learned eigenfunctions on {grid_text(operator)}, in ascending eigenvalue, row by row.",
        figures.eigenfunction_mosaic(functions, grid, operator.drawn.eigenvalues),
    )


def grid_text(operator: Operator) -> str:
    """What the spectrum is drawn on."""
    text = "the latent grid"
    if operator.drawn_grid != operator.grid:
        latent, drawn = ("×".join(map(str, grid)) for grid in (operator.grid, operator.drawn_grid))
        text = f"{drawn} points, where the latent grid that they were learned on has {latent}"
    return f"{text} ({MIDDLE})" if len(operator.grid) == 3 else text


def _pictured(
    functions: Float[Tensor, "points ..."], grid: tuple[int, ...]
) -> tuple[Float[Tensor, "pixels ..."], tuple[int, int]]:
    """Functions where a picture shows them, and its height and width."""
    *depth, height, width = grid
    if depth:
        functions = functions.unflatten(0, grid)[depth[0] // 2].flatten(0, 1)
    return functions, (height, width)


def mass(operator: Operator | None) -> Iterator[Picture]:
    """The learned mass; nothing where the method learns no operator."""
    if operator is None:
        return
    drawn = figures.mass_map(*_pictured(operator.drawn.mass, operator.drawn_grid))
    yield Picture("mass", f"Learned mass on {grid_text(operator)}, as its deviation from the mean.", drawn)


def _title(maps: Maps) -> str:
    cut = f", entries cut off at {LARGEST:g}" if bool((maps.own.abs() > LARGEST).any()) else ""
    return f"{maps.text}{cut}"
