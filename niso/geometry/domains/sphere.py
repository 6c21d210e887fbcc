"""The sphere: Driscoll–Healy grids, real spherical harmonics, and how rotations act on their coefficients.

A function is band-limited with bandwidth B if all its degrees ℓ are below B. It then has B² coefficients, in the order
(ℓ, m) = (0, 0), (1, −1), (1, 0), (1, 1), … A rotation R acts from the left: (Rf)(x) = f(R⁻¹x).

Grid and quadrature: Driscoll, Healy, "Computing Fourier transforms and convolutions on the 2-sphere", 1994.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from niso.geometry.domains import equirectangular


class Harmonics(NamedTuple):
    """Real spherical harmonics on a grid, orthonormal in the inner product of its quadrature weights.

    Attributes:
        functions: (points, B²) columns Y with YᵀWY = I.
        spaces: (B²,) degree ℓ of each column. The degrees are inequivalent irreducible representations of SO(3), so
            the spaces of 2ℓ + 1 functions that they span are its only irreducible subspaces.
        eigenvalues: (B²,) ℓ(ℓ + 1), the eigenvalue of the spherical Laplacian for each column.
        weights: (points,) quadrature weights W, which add up to 4π.
    """

    functions: Float[Tensor, "points coefficients"]
    spaces: Int[Tensor, " coefficients"]
    eigenvalues: Float[Tensor, " coefficients"]
    weights: Float[Tensor, " points"]


@lru_cache
@torch.inference_mode(False)  # training may use what was first computed for inference
def harmonics(
    size: int,
    bandwidth: int | None = None,
    dtype: torch.dtype = torch.float64,
    device: torch.device | str = "cpu",
) -> Harmonics:
    """All harmonics below a bandwidth on the size × size Driscoll–Healy grid, computed in float64 and kept in a cache.

    Args:
        bandwidth: by default size / 2, the largest one that the grid resolves.

    Raises:
        ValueError: see `check_grid`.
    """
    bandwidth = size // 2 if bandwidth is None else bandwidth
    check_grid(size, size, bandwidth)
    points = equirectangular.directions(size, size, "driscoll-healy").flatten(0, 1)
    ells = degrees(bandwidth)
    parts = (spherical_harmonics(points, bandwidth), ells, (ells * (ells + 1)).double(), quadrature_weights(size))
    return Harmonics(*(part.to(device, dtype if part.is_floating_point() else None) for part in parts))


def check_grid(height: int, width: int, bandwidth: int) -> None:
    """Raise ValueError unless a grid is a Driscoll–Healy grid that resolves a bandwidth; the message says why."""
    if height != width or height < 2 or height % 2:
        raise ValueError(
            f"a {height}×{width} grid is not Driscoll–Healy: bandwidth B needs 2B×2B points, an even square"
        )
    if not 1 <= bandwidth <= height // 2:
        raise ValueError(
            f"bandwidth {bandwidth} does not fit the {height}×{width} grid, whose quadrature is exact for "
            f"1 to {height // 2} only"
        )


def quadrature_weights(size: int) -> Float[Tensor, " points"]:
    """Weights w of the points of the size × size Driscoll–Healy grid in row-major order, in float64; Σw = 4π.

    Σ w f is the integral of f over the sphere for every f of degree below `size`, in particular for products of two
    functions of bandwidth size / 2. The weights are nearly the areas sin θ of the cells, and smallest at the poles.
    """
    check_grid(size, size, 1)
    colatitude = equirectangular.colatitudes(size, "driscoll-healy")
    odd = 2 * torch.arange(size // 2, dtype=torch.float64, device="cpu") + 1
    ring = colatitude.sin() * ((odd * colatitude[:, None]).sin() / odd).sum(-1)
    return (8 * math.pi / size**2 * ring).repeat_interleave(size)


def degrees(bandwidth: int) -> Int[Tensor, " coefficients"]:
    """Degree ℓ of each coefficient."""
    ells = torch.arange(bandwidth, device="cpu")
    return ells.repeat_interleave(2 * ells + 1)


def laplacian(size: int, bandwidth: int | None = None) -> Float[Tensor, "points points"]:
    """Spherical Laplacian restricted to the degrees below a bandwidth, Y diag(ℓ(ℓ + 1)) YᵀW, of rank B² − 1."""
    truth = harmonics(size, bandwidth)
    return truth.functions * truth.eigenvalues @ (truth.functions * truth.weights[:, None]).mT


def spherical_harmonics(
    directions: Float[Tensor, "*points 3"], bandwidth: int
) -> Float[Tensor, "*points coefficients"]:
    """Real orthonormal spherical harmonics of degrees below `bandwidth` at unit vectors.

    √2 N cos(mφ) P(cos θ) for m > 0, √2 N sin(|m|φ) P for m < 0, without the sign (−1)ᵐ of Condon and Shortley, so
    that degree 1 is √(3/4π) (y, z, x). A recursion on polynomials in x, y, z, smooth everywhere, poles included.
    """
    diagonal, factor, previous = _recursion(bandwidth, directions.dtype, directions.device)
    x, y, z = directions.unbind(-1)
    cosines, sines = [torch.ones_like(x)], [torch.zeros_like(x)]  # sinᵐθ cos mφ and sinᵐθ sin mφ
    below = before = z.new_zeros(*z.shape, bandwidth)
    legendre = []
    for ell in range(bandwidth):
        below, before = factor[ell] * (z[..., None] * below - previous[ell] * before) + diagonal[ell], below
        legendre.append(below)
        c, s = cosines[-1], sines[-1]
        cosines.append(x * c - y * s)
        sines.append(x * s + y * c)
    polar = torch.stack(legendre, dim=-2)  # (*points, ℓ, |m|), divided by sinᵐθ
    negative = polar[..., 1:] * torch.stack(sines[:-1], dim=-1)[..., None, 1:]
    others = polar * torch.stack(cosines[:-1], dim=-1)[..., None, :]
    return torch.cat([negative.flip(-1), others], dim=-1).flatten(-2)[..., _valid(bandwidth, directions.device)]


def wigner_d(rotations: Float[Tensor, "*batch 3 3"], bandwidth: int) -> Float[Tensor, "*batch rows columns"]:
    """Real Wigner-D matrices of degrees below `bandwidth`, block-diagonal (B², B²), by exact quadrature.

    D takes the coefficients of f to those of Rf. D(RS) = D(R) D(S), and D is orthogonal. R may also be a reflection.
    """
    nodes, weighted, same = _projection(bandwidth, rotations.dtype, rotations.device)
    return weighted @ spherical_harmonics(nodes @ rotations, bandwidth) * same


def characters(rotations: Float[Tensor, "*batch 3 3"], bandwidth: int) -> Float[Tensor, "*batch degrees"]:
    """χ_ℓ = sin((ℓ + ½)ω) / sin(ω/2): traces of the blocks of `wigner_d`, from the angle ω of the rotation alone."""
    angle = angles(rotations)
    cosines = (angle[..., None] * torch.arange(bandwidth, device=angle.device)).cos()
    return 2 * cosines.cumsum(-1) - 1


def angles(rotations: Float[Tensor, "*batch 3 3"]) -> Float[Tensor, "*batch"]:
    """Angle ω of each rotation in radians, 0 to π."""
    skew = rotations - rotations.mT
    sine = torch.stack((skew[..., 2, 1], skew[..., 0, 2], skew[..., 1, 0]), dim=-1).norm(dim=-1)
    return torch.atan2(sine, rotations.diagonal(dim1=-2, dim2=-1).sum(-1) - 1)


def band_limited(z: Float[Tensor, "*batch points channels"], bandwidth: int) -> Float[Tensor, "*batch points channels"]:
    """Functions on a Driscoll–Healy grid, projected onto the degrees below `bandwidth`.

    Raises:
        ValueError: see `check_grid`.
    """
    size = math.isqrt(z.shape[-2])
    if size * size != z.shape[-2]:
        raise ValueError(f"{z.shape[-2]} points are not a Driscoll–Healy grid: bandwidth B needs 2B×2B points")
    basis = harmonics(size, bandwidth, z.dtype, z.device)
    return basis.functions @ ((basis.functions * basis.weights[:, None]).mT @ z)


# Constants, computed once for each bandwidth, dtype and device, and outside inference mode: training may use them, too


@lru_cache
@torch.inference_mode(False)
def _recursion(bandwidth: int, dtype: torch.dtype, device: torch.device) -> tuple[Tensor, Tensor, Tensor]:
    """P_ℓᵐ = factor (z P_(ℓ−1)ᵐ − previous P_(ℓ−2)ᵐ) for m < ℓ and `diagonal` for m = ℓ; rows are ℓ, columns m."""
    ell = np.arange(bandwidth)[:, None]
    m = np.arange(bandwidth)[None, :]
    below = m < ell
    factor = np.sqrt(np.where(below, 4 * ell**2 - 1, 0) / np.where(below, ell**2 - m**2, 1))
    previous = np.sqrt(np.where(m < ell - 1, (ell - 1) ** 2 - m**2, 0) / np.maximum(4 * (ell - 1) ** 2 - 1, 1))
    growth = np.concatenate([[1.0], (2 * np.arange(1, bandwidth) + 1) / (2 * np.arange(1, bandwidth))])
    diagonal = np.diag(np.sqrt(np.cumprod(growth) / (4 * math.pi) * np.where(np.arange(bandwidth) > 0, 2, 1)))
    first, second, third = (torch.from_numpy(part).to(device, dtype) for part in (diagonal, factor, previous))
    return first, second, third


@lru_cache
@torch.inference_mode(False)
def _valid(bandwidth: int, device: torch.device) -> Int[Tensor, " coefficients"]:
    """Indices of the entries −ℓ ≤ m ≤ ℓ in a flattened table of rows ℓ < B and columns −B < m < B."""
    ells = degrees(bandwidth)
    m = torch.arange(bandwidth**2, device="cpu") - ells * (ells + 1)
    return (ells * (2 * bandwidth - 1) + m + bandwidth - 1).to(device)


@lru_cache
@torch.inference_mode(False)
def _projection(bandwidth: int, dtype: torch.dtype, device: torch.device) -> tuple[Tensor, Tensor, Tensor]:
    """Nodes of a quadrature, YᵀW at them, and a matrix that is 1 where two coefficients share a degree."""
    # Gauss–Legendre × uniform: exact for products of two such functions, with half the nodes of Driscoll and Healy
    heights, weights = np.polynomial.legendre.leggauss(bandwidth)
    z = torch.from_numpy(heights)[:, None]
    turns = 2 * bandwidth - 1
    longitude = 2 * math.pi / turns * torch.arange(turns, dtype=torch.float64, device="cpu")
    radius = (1 - z.square()).sqrt()
    nodes = torch.stack((radius * longitude.cos(), radius * longitude.sin(), z.expand(-1, turns)), dim=-1).flatten(0, 1)
    weight = torch.from_numpy(weights).repeat_interleave(turns) * (2 * math.pi / turns)
    weighted = (spherical_harmonics(nodes, bandwidth) * weight[:, None]).mT
    ells = degrees(bandwidth)
    same = (ells[:, None] == ells).to(dtype)
    return nodes.to(device, dtype), weighted.to(device, dtype), same.to(device)
