"""Values of images and volumes between their pixels."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor


def interpolated(
    x: Float[Tensor, "batch channels *sides"],
    places: Float[Tensor, "batch *others dimensions"],
    background: float,
    corners: bool,
) -> Float[Tensor, "batch channels *others"]:
    """Images or volumes at places (x, y) or (x, y, z), linear in each direction, with `background` all around them.

    Args:
        places: from −1 to 1 along the last side, the one before, …
        corners: whether ±1 are the centres of the outermost pixels, and else the outer edges of these.
    """
    return torch.nn.functional.grid_sample(x - background, places, align_corners=corners) + background
