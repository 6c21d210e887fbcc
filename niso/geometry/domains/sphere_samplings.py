"""Samplings of the sphere that are no grids: Fibonacci points, random points with Voronoi weights."""

from __future__ import annotations

import math

import torch

from niso.geometry.domains.domain import Sampling


def fibonacci(count: int) -> Sampling:
    """Points (x, y, z) on a spiral, almost evenly spread; all have the same weight.

    Source: González, "Measurement of areas on a sphere using Fibonacci and latitude–longitude lattices", 2010.
    """
    index = torch.arange(count, dtype=torch.float64, device="cpu")
    z = 1 - (2 * index + 1) / count
    turn = index * math.pi * (3 - math.sqrt(5))
    radius = (1 - z.square()).sqrt()
    return Sampling(torch.stack([radius * turn.cos(), radius * turn.sin(), z], dim=-1), torch.ones_like(z))


def random(count: int, seed: int) -> Sampling:
    """Independent uniform points (x, y, z), each with the area of its Voronoi cell as weight; at least four."""
    from scipy.spatial import SphericalVoronoi  # slow to import

    generator = torch.Generator().manual_seed(seed)
    points = torch.nn.functional.normalize(
        torch.randn(count, 3, generator=generator, dtype=torch.float64, device="cpu"), dim=-1
    )
    areas = torch.from_numpy(SphericalVoronoi(points.numpy()).calculate_areas())
    return Sampling(points, areas / areas.mean())
