"""The smoothest functions on points: what eigenfunctions of a table may start as."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from niso.checks import check_count, check_tensors

MOST = 5_000
"""Points; a decomposition of all distances between more would take minutes."""


def smooth_functions(points: Float[Tensor, "points dimensions"], rank: int) -> Float[Tensor, "points rank"]:
    """The first eigenfunctions of a graph Laplacian, in ascending eigenvalue, whatever the points' density.

    The weights of its edges are Gaussian, as wide as neighbours are apart (the median). On a grid of a rectangle they
    are nearly products of cosines, on the sphere spherical harmonics.

    Args:
        points: coordinates.
        rank: number of functions, at most that of points.

    Returns:
        Functions as columns, in float64.

    Raises:
        TypeError: not a tensor of floating-point numbers, or a rank that is not a whole number.
        ValueError: points that are not (points, dimensions) or not finite, more than 5,000 of them, or a rank outside
            1 … points.

    Source: Coifman and Lafon, "Diffusion maps", 2006 (α = 1).
    """
    check_tensors(points=(points, "points dimensions"))
    if not 1 <= check_count("rank", rank) <= len(points):
        raise ValueError(f"rank {rank} must lie between 1 and the number of points, {len(points)}")
    if not points.isfinite().all():
        raise ValueError("points must be finite")
    if len(points) > MOST:
        raise ValueError(f"a smooth start is for at most {MOST:,} points, not {len(points):,}")
    exact = "donot_use_mm_for_euclid_dist"  # products cancel where points are far from the origin
    distance = torch.cdist(points.double(), points.double(), compute_mode=exact)
    apart = distance.clone().fill_diagonal_(torch.inf).amin(1).median().clamp_min(1e-9)
    kernel = (-((distance / apart) ** 2) / 2).exp()
    density = kernel.sum(1)
    kernel = kernel / (density[:, None] * density)
    root = kernel.sum(1).rsqrt()
    vectors = torch.linalg.eigh(root[:, None] * kernel * root).eigenvectors
    return root[:, None] * vectors.flip(1)[:, :rank]
