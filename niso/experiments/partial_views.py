"""Partial views in experiments: metrics against the covered share of images, and examples for a figure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn

from niso.geometry.occluders import Occluder
from niso.methods.method import Method
from niso.results import Curve

SHARES = (0.0, 0.1, 0.2, 0.3, 0.4)
"""Covered shares of test images; 0 for comparison."""
SHOWN = 0.3
"""Covered share of the images in figures."""
COUNT = 8
"""Number of images in figures."""


def curve(values: Sequence[float], count: int, label: str) -> Curve:
    """A metric, a value for each of `SHARES`.

    Args:
        count: examples that each value is a mean over.
        label: of the metric.
    """
    return {
        "x": list(SHARES),
        "y": list(values),
        "count": [count] * len(SHARES),
        "x_label": "covered share of the image",
        "y_label": label,
    }


def mean_covered(of: Curve) -> float:
    """Mean of a metric over the shares above 0."""
    return sum(of["y"][1:]) / len(of["y"][1:])


class PartialViews(NamedTuple):
    """What a method makes of images that are seen in part; on the CPU.

    Attributes:
        whole, seen: images, and the same with occluders in front.
        reconstructions: D(E(·)) of the latter.
        visible: share of the pixels of each latent point's cell that are not covered.
        confidence: how far the method trusts each latent point; None where it trusts all alike.
    """

    whole: Float[Tensor, "shown channels height width"]
    seen: Float[Tensor, "shown channels height width"]
    reconstructions: Float[Tensor, "shown channels height width"]
    visible: Float[Tensor, "shown grid_height grid_width"]
    confidence: Float[Tensor, "shown grid_height grid_width"] | None


@torch.no_grad()
def covered_views(
    method: Method, images: Float[Tensor, "shown channels height width"], occluder: Occluder, mark: bool
) -> PartialViews:
    """What a method makes of images behind occluders.

    Args:
        mark: whether the method is told what is covered, by NaN.
    """
    method.model.eval()
    given = occluder.over(images, mark)
    confidence = method.confidence(given)
    height, width = method.grid
    visible = nn.functional.adaptive_avg_pool2d(1 - occluder.covered.float(), (height, width))[:, 0]
    return PartialViews(
        images.cpu(),
        occluder.over(images).cpu(),
        method.decode(method.encode(given)).float().cpu(),
        visible.cpu(),
        None if confidence is None else confidence.unflatten(1, method.grid).cpu(),
    )
