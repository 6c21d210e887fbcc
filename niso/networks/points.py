"""Images and volumes as functions on their points, and back."""

from __future__ import annotations

import math

from jaxtyping import Float
from torch import Tensor


def grid_to_points(image: Float[Tensor, "batch channel *grid"]) -> Float[Tensor, "batch point channel"]:
    """Images or volumes as functions on their points, row by row; a view if channels are last in memory."""
    return image.movedim(1, -1).flatten(1, -2)


def points_to_grid(
    points: Float[Tensor, "batch point channel"], grid: tuple[int, ...]
) -> Float[Tensor, "batch channel *grid"]:
    """Inverse of `grid_to_points`: a channels-last view; ValueError where the points do not fill the grid."""
    if points.shape[1] != math.prod(grid):
        raise ValueError(f"{points.shape[1]} points do not fill a grid of {' × '.join(map(str, grid))}")
    return points.unflatten(1, grid).movedim(-1, 1)
