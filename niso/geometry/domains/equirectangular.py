"""Equirectangular grids of the sphere: rows are colatitudes θ from the north pole, columns are longitudes φ."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor

from niso.checks import check_choice

Layout = Literal["driscoll-healy", "poles"]
"""Where the rows and columns of a height × width grid lie:

- "driscoll-healy": θ = π(i + ½)/height and φ = 2πj/width; no row is at a pole, and every point occurs once;
- "poles": θ = πi/(height − 1) and φ = 2πj/(width − 1); the first and last rows are at the poles, and the last column
  equals the first.
"""


def colatitudes(height: int, layout: Layout) -> Float[Tensor, " height"]:
    """θ of the rows, in radians, in float64."""
    return between(torch.arange(height, dtype=torch.float64, device="cpu"), height, layout, "colatitude")


def longitudes(width: int, layout: Layout) -> Float[Tensor, " width"]:
    """φ of the columns, in radians, in float64."""
    return between(torch.arange(width, dtype=torch.float64, device="cpu"), width, layout, "longitude")


def between(
    index: Float[Tensor, " indices"], count: int, layout: Layout, axis: Literal["colatitude", "longitude"]
) -> Float[Tensor, " indices"]:
    """θ or φ of whole or broken indices of a grid's rows or columns, of which there are `count`."""
    if not _centred(layout):
        return (math.pi if axis == "colatitude" else 2 * math.pi) * index / (count - 1)
    return math.pi * (index + 0.5) / count if axis == "colatitude" else 2 * math.pi * index / count


@lru_cache
@torch.inference_mode(False)  # training may use what was first computed for inference
def directions(
    height: int,
    width: int,
    layout: Layout,
    dtype: torch.dtype = torch.float64,
    device: torch.device | str = "cpu",
) -> Float[Tensor, "height width 3"]:
    """Unit vectors (x, y, z) of all grid points, z towards the north pole; kept in a cache, so do not change them."""
    return unit_vectors(colatitudes(height, layout), longitudes(width, layout)).to(device, dtype)


def unit_vectors(theta: Float[Tensor, " height"], phi: Float[Tensor, " width"]) -> Float[Tensor, "height width 3"]:
    """Vectors (x, y, z) towards all points of these colatitudes and longitudes, z towards the north pole."""
    theta = theta[:, None]
    parts = (theta.sin() * phi.cos(), theta.sin() * phi.sin(), theta.cos().expand(-1, len(phi)))
    return torch.stack(parts, dim=-1)


def sample(
    images: Float[Tensor, "batch channels height width"],
    places: Float[Tensor, "#batch rows columns 3"],
    layout: Layout,
) -> Float[Tensor, "batch channels rows columns"]:
    """Values of functions on a grid at other points of the sphere, by bilinear interpolation in θ and φ.

    The result is continuous on the whole sphere, across the seam φ = 0 and at the poles, too: there the value is the
    mean of the nearest row, or that of the row at a pole, which must be constant where poles are on the grid. It is
    differentiable in images and places, except at the poles and where a place crosses from one cell to the next.

    Args:
        places: vectors towards these points, of any length but 0.

    Raises:
        ValueError: the grid has fewer than 2 rows or columns, or the layout is unknown.
    """
    height, width = images.shape[-2:]
    if min(height, width) < 2:
        raise ValueError(f"a {height}×{width} grid is too small for interpolation: at least 2×2 points are needed")
    dtype, images = images.dtype, images.to(torch.promote_types(images.dtype, torch.float32))  # places need the digits
    x, y, z = places.unbind(-1)
    radius = (x.square() + y.square()).clamp_min(torch.finfo(places.dtype).tiny)  # finite gradients at the poles
    on_axis = radius <= 1e-20 * z.square()
    phi = torch.atan2(y, x.where(~on_axis, 1)) / (2 * math.pi) % 1
    theta = torch.atan2(radius.sqrt(), z) / math.pi
    if _centred(layout):
        poles = images[..., :: height - 1, :].mean(-1, keepdim=True).expand(*images.shape[:-2], 2, width)
        images = torch.cat([poles[..., :1, :], images, poles[..., 1:, :]], dim=-2)
        images = torch.cat([images, images[..., :1]], dim=-1)
        turn = theta * height  # a pole is half a row from the nearest one, but a whole row in the padded image
        row = turn + 0.5 + (turn - 0.5).clamp(max=0) + (turn - height + 0.5).clamp(min=0)
        column = phi * width
    else:
        row, column = theta * (height - 1), phi * (width - 1)
    ends = ((column, images.shape[-1] - 1), (row, images.shape[-2] - 1))
    grid = torch.stack([2 * place / last - 1 for place, last in ends], dim=-1).to(images.dtype)
    grid = grid.expand(len(images), *grid.shape[1:])
    found = torch.nn.functional.grid_sample(images, grid, mode="bilinear", padding_mode="border", align_corners=True)
    return found.to(dtype)


def _centred(layout: Layout) -> bool:
    check_choice("layout", layout, Layout)
    return layout == "driscoll-healy"
