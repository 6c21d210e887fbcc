"""Where the points of a grid lie on a domain: what a field needs to know of them."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from niso.geometry.domains import equirectangular, sphere


class Sampling(NamedTuple):
    """Points of a domain, and what each stands for; in float64.

    Attributes:
        points: coordinates.
        weights: areas or quadrature weights, positive, of mean 1.
    """

    points: Float[Tensor, "points dimensions"]
    weights: Float[Tensor, " points"]


Domain = Callable[..., Sampling]
"""The grid of a domain with so many points along each axis, height × width on a surface, in row-major order."""


def box(*sides: int) -> Sampling:
    """Centres (x, y) of the cells of a height × width grid on a rectangle, or (x, y, z) of a depth × height × width
    grid in a box, whose longest side reaches from −1 to 1."""
    axes = [(2 * torch.arange(side, dtype=torch.float64, device="cpu") + 1 - side) / max(sides) for side in sides]
    return _sampling(torch.stack(torch.meshgrid(*axes, indexing="ij")[::-1], dim=-1))


def torus(height: int, width: int) -> Sampling:
    """Places (x, y) on a torus of period 2 along both axes, from −1 on."""
    rows, columns = (2 * torch.arange(n, dtype=torch.float64, device="cpu") / n - 1 for n in (height, width))
    return _sampling(torch.stack(torch.meshgrid(columns, rows, indexing="xy"), dim=-1))


def quadrature_sphere(height: int, width: int) -> Sampling:
    """Unit vectors (x, y, z) of a Driscoll–Healy grid, and the weights of its quadrature.

    Raises:
        ValueError: the grid is not an even square.
    """
    sphere.check_grid(height, width, 1)
    weights = sphere.quadrature_weights(height)
    return _sampling(equirectangular.directions(height, width, "driscoll-healy"), weights)


def rastered_sphere(pixels: tuple[int, int], layout: equirectangular.Layout) -> Domain:
    """Unit vectors (x, y, z) of the cells of a grid over a raster of the sphere, and their areas.

    Args:
        pixels: height and width of the raster, whose pixels each cell of the grid covers.
        layout: of the raster's pixels.
    """

    def domain(height: int, width: int) -> Sampling:
        tall, wide = pixels
        rows, columns = (
            torch.arange(cells + 1, dtype=torch.float64, device="cpu") * side / cells - 0.5
            for cells, side in ((height, tall), (width, wide))
        )
        theta = equirectangular.between(rows, tall, layout, "colatitude").clamp(0, math.pi)
        phi = equirectangular.between(columns, wide, layout, "longitude")
        over = ((phi[-1] - phi[0] - 2 * math.pi) / 2).clamp_min(0)  # the raster of "poles" has the seam twice
        turns = phi.clamp(phi[0] + over, phi[-1] - over).diff()
        # cells finer than the pixels of "poles" may lie beyond the poles and the seam
        areas = (theta.cos().diff().neg()[:, None] * turns).clamp_min(1e-6)
        points = equirectangular.unit_vectors((theta[1:] + theta[:-1]) / 2, (phi[1:] + phi[:-1]) / 2)
        return _sampling(points, areas.flatten())

    return domain


def _sampling(points: Float[Tensor, "*grid dimensions"], weights: Tensor | None = None) -> Sampling:
    flat = points.flatten(0, -2)
    weights = torch.ones(len(flat), dtype=torch.float64, device="cpu") if weights is None else weights
    return Sampling(flat, weights / weights.mean())
