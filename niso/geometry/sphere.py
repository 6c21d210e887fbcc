"""The sphere: Driscoll–Healy grids, real spherical harmonics, and rotations of functions, exact and by resampling.

A function is band-limited with bandwidth B if it has degrees ℓ < B only; it then has B² coefficients, ordered
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

from niso.geometry import equirectangular


class Harmonics(NamedTuple):
    """Real spherical harmonics on a grid, orthonormal in the inner product of its quadrature weights.

    Attributes:
        functions: (points, B²) columns Y with YᵀWY = I.
        spaces: (B²,) degree ℓ of each column. The degrees are inequivalent irreducible representations of SO(3): the
            spaces of 2ℓ + 1 functions that they span are its finest invariant subspaces, and no others are.
        eigenvalues: (B²,) ℓ(ℓ + 1), the eigenvalue of the spherical Laplacian at each column.
        weights: (points,) quadrature weights W, which add up to 4π.
    """

    functions: Float[Tensor, "points coefficients"]
    spaces: Int[Tensor, " coefficients"]
    eigenvalues: Float[Tensor, " coefficients"]
    weights: Float[Tensor, " points"]


def harmonics(size: int, bandwidth: int | None = None) -> Harmonics:
    """All harmonics below a bandwidth on the size × size Driscoll–Healy grid, in float64.

    Args:
        bandwidth: the largest one that the grid resolves, size / 2, by default.

    Raises:
        ValueError: see `check_grid`.
    """
    return _harmonics(size, size // 2 if bandwidth is None else bandwidth, torch.float64, torch.device("cpu"))


def check_grid(height: int, width: int, bandwidth: int) -> None:
    """Check that a grid is Driscoll–Healy's and resolves a bandwidth.

    Raises:
        ValueError: it is not, or it does not; says why.
    """
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

    Σ w f is the integral over the sphere of every f of degree below `size`, thus exact for products of two functions
    of bandwidth size / 2. They are nearly the areas sin θ of the cells, and smallest at the poles.
    """
    check_grid(size, size, 1)
    colatitude = equirectangular.colatitudes(size, "driscoll-healy")
    odd = 2 * torch.arange(size // 2, dtype=torch.float64) + 1
    ring = colatitude.sin() * ((odd * colatitude[:, None]).sin() / odd).sum(-1)
    return (8 * math.pi / size**2 * ring).repeat_interleave(size)


def degrees(bandwidth: int, device: torch.device | str | None = None) -> Int[Tensor, " coefficients"]:
    """Degree ℓ of every coefficient."""
    ells = torch.arange(bandwidth, device=device)
    return ells.repeat_interleave(2 * ells + 1, output_size=bandwidth**2)


def laplacian(size: int, bandwidth: int | None = None) -> Float[Tensor, "points points"]:
    """Spherical Laplacian of the degrees below a bandwidth, Y diag(ℓ(ℓ + 1)) YᵀW: all that rank B² can know of it."""
    truth = harmonics(size, bandwidth)
    return truth.functions * truth.eigenvalues @ (truth.functions * truth.weights[:, None]).mT


def spherical_harmonics(
    directions: Float[Tensor, "*points 3"], bandwidth: int
) -> Float[Tensor, "*points coefficients"]:
    """Real orthonormal spherical harmonics of degrees below `bandwidth` at unit vectors.

    √2 N cos(mφ) P(cos θ) for m > 0, √2 N sin(|m|φ) P for m < 0, without the sign (−1)ᵐ of Condon and Shortley, so
    that degree 1 is √(3/4π) (y, z, x). By a recursion on polynomials in x, y, z: smooth everywhere, poles included.
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


def random_rotations(
    count: int,
    generator: torch.Generator | None = None,
    dtype: torch.dtype = torch.float32,
    device: torch.device | str | None = None,
) -> Float[Tensor, "count 3 3"]:
    """Rotations from the uniform (Haar) distribution on SO(3); torch's global generator by default."""
    return rotation_matrices(torch.randn(count, 4, generator=generator, dtype=dtype, device=device))


def rotation_matrices(quaternions: Float[Tensor, "*batch 4"]) -> Float[Tensor, "*batch 3 3"]:
    """Rotations of quaternions (w, x, y, z) of any length but 0: about v = (x, y, z), by the angle 2 atan2(|v|, w)."""
    w, axis = quaternions[..., :1], quaternions[..., 1:]
    x, y, z = axis.unbind(-1)
    zero = torch.zeros_like(x)
    cross = torch.stack((zero, -z, y, z, zero, -x, -y, x, zero), dim=-1).unflatten(-1, (3, 3))
    turn = 2 * (w[..., None] * cross + cross @ cross) / quaternions.square().sum(-1)[..., None, None]
    return torch.eye(3, dtype=turn.dtype, device=turn.device) + turn


def wigner_d(rotations: Float[Tensor, "*batch 3 3"], bandwidth: int) -> Float[Tensor, "*batch rows columns"]:
    """Real Wigner-D matrices of degrees below `bandwidth`, block-diagonal (B², B²), by exact quadrature.

    D takes the coefficients of f to those of Rf. D(RS) = D(R) D(S); D is orthogonal. Reflections are allowed too.
    """
    nodes, weighted, same = _projection(bandwidth, rotations.dtype, rotations.device)
    return weighted @ spherical_harmonics(nodes @ rotations, bandwidth) * same


def characters(rotations: Float[Tensor, "*batch 3 3"], bandwidth: int) -> Float[Tensor, "*batch degrees"]:
    """χ_ℓ = sin((ℓ + ½)ω) / sin(ω/2): traces of the blocks of `wigner_d`, from the rotation's angle ω alone."""
    skew = rotations - rotations.mT
    sine = torch.stack((skew[..., 2, 1], skew[..., 0, 2], skew[..., 1, 0]), dim=-1).norm(dim=-1)
    angle = torch.atan2(sine, rotations.diagonal(dim1=-2, dim2=-1).sum(-1) - 1)
    cosines = (angle[..., None] * torch.arange(bandwidth, device=angle.device)).cos()
    return 2 * cosines.cumsum(-1) - 1


def band_limited(z: Float[Tensor, "*batch points channels"], bandwidth: int) -> Float[Tensor, "*batch points channels"]:
    """Functions on a Driscoll–Healy grid projected on the degrees below `bandwidth`.

    Raises:
        ValueError: see `check_grid`.
    """
    basis = _harmonics(_size(z), bandwidth, z.dtype, z.device)
    return basis.functions @ ((basis.functions * basis.weights[:, None]).mT @ z)


def rotate(
    z: Float[Tensor, "batch points channels"], rotations: Float[Tensor, "#batch 3 3"], bandwidth: int
) -> Float[Tensor, "batch points channels"]:
    """Exact rotation of band-limited functions on a Driscoll–Healy grid; what they have of other degrees is lost.

    A left action, to rounding: rotating by R, then by S, is rotating by S R.

    Raises:
        ValueError: see `check_grid`.
    """
    basis = _harmonics(_size(z), bandwidth, z.dtype, z.device)
    coefficients = (basis.functions * basis.weights[:, None]).mT @ z
    return basis.functions @ (wigner_d(rotations.to(z.dtype), bandwidth) @ coefficients)


def resample(
    z: Float[Tensor, "batch points channels"], rotations: Float[Tensor, "#batch 3 3"]
) -> Float[Tensor, "batch points channels"]:
    """Functions on a Driscoll–Healy grid rotated by bilinear interpolation: for any function, but not an isometry.

    Raises:
        ValueError: see `check_grid`.
    """
    size = _size(z)
    images = z.mT.unflatten(-1, (size, size))
    points = equirectangular.directions(size, size, "driscoll-healy", z.dtype, z.device)
    return equirectangular.sample(images, points @ rotations[:, None].to(z.dtype), "driscoll-healy").flatten(2).mT


def _size(z: Tensor) -> int:
    size = math.isqrt(z.shape[-2])
    if size * size != z.shape[-2]:
        raise ValueError(f"{z.shape[-2]} points are not a Driscoll–Healy grid: bandwidth B needs 2B×2B points")
    check_grid(size, size, 1)
    return size


# Constants, once for every bandwidth, dtype and device; usable in training whoever asked first


@lru_cache
@torch.inference_mode(False)
def _harmonics(size: int, bandwidth: int, dtype: torch.dtype, device: torch.device) -> Harmonics:
    check_grid(size, size, bandwidth)
    points = equirectangular.directions(size, size, "driscoll-healy").flatten(0, 1)
    functions = spherical_harmonics(points, bandwidth)
    ells = degrees(bandwidth)
    parts = (functions, ells, (ells * (ells + 1)).double(), quadrature_weights(size))
    return Harmonics(*(part.to(device, dtype if part.is_floating_point() else None) for part in parts))


@lru_cache
@torch.inference_mode(False)
def _recursion(bandwidth: int, dtype: torch.dtype, device: torch.device) -> tuple[Tensor, Tensor, Tensor]:
    """P_ℓᵐ = factor (z P_(ℓ−1)ᵐ − previous P_(ℓ−2)ᵐ) for m < ℓ and `diagonal` for m = ℓ, rows ℓ and columns m."""
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
    """Places of −ℓ ≤ m ≤ ℓ in a table of rows ℓ < B and columns −B < m < B."""
    ells = degrees(bandwidth)
    m = torch.arange(bandwidth**2) - ells * (ells + 1)
    return (ells * (2 * bandwidth - 1) + m + bandwidth - 1).to(device)


@lru_cache
@torch.inference_mode(False)
def _projection(bandwidth: int, dtype: torch.dtype, device: torch.device) -> tuple[Tensor, Tensor, Tensor]:
    """Nodes on the sphere, YᵀW at them, and which pairs of coefficients share a degree.

    Gauss–Legendre × uniform, exact for products of two functions of this bandwidth: half as many nodes as the grid.
    """
    heights, weights = np.polynomial.legendre.leggauss(bandwidth)
    z = torch.from_numpy(heights)[:, None]
    turns = 2 * bandwidth - 1
    longitude = 2 * math.pi / turns * torch.arange(turns, dtype=torch.float64)
    radius = (1 - z.square()).sqrt()
    nodes = torch.stack((radius * longitude.cos(), radius * longitude.sin(), z.expand(-1, turns)), dim=-1).flatten(0, 1)
    weight = torch.from_numpy(weights).repeat_interleave(turns) * (2 * math.pi / turns)
    weighted = (spherical_harmonics(nodes, bandwidth) * weight[:, None]).mT
    ells = degrees(bandwidth)
    same = (ells[:, None] == ells).to(dtype)
    return nodes.to(device, dtype), weighted.to(device, dtype), same.to(device)
