"""The flat torus Z_n × Z_n: its harmonics, the planes that circular shifts preserve, and the toric Laplacian."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor


class Harmonics(NamedTuple):
    """Real Fourier basis of the size × size torus, in ascending Laplacian eigenvalue.

    Attributes:
        functions: (points, points) orthonormal columns.
        spaces: (points,) number of the plane ±(a, b) that contains each column. Circular shifts form an abelian group,
            and these planes are its finest invariant real subspaces; they are one-dimensional where (a, b) = −(a, b).
        eigenvalues: (points,) eigenvalue of the toric Laplacian for each column.
        frequencies: (points, 2) integer frequency (a, b) of each column.
    """

    functions: Float[Tensor, "points points"]
    spaces: Int[Tensor, " points"]
    eigenvalues: Float[Tensor, " points"]
    frequencies: Int[Tensor, "points 2"]


def harmonics(size: int, bandwidth: int | None = None) -> Harmonics:
    """The real harmonics of the torus in float64; the two (or the one) of a plane are neighbours.

    Args:
        bandwidth: only frequencies below it along both axes, (2 · bandwidth − 1)² functions; by default all.

    Raises:
        ValueError: a bandwidth outside 1 … size / 2, the frequency from which on different waves agree on the grid.
    """
    if bandwidth is not None and not 1 <= bandwidth <= size / 2:
        raise ValueError(
            f"bandwidth {bandwidth} does not fit the {size}×{size} torus: it must be from 1 to {size // 2}"
        )
    grid = torch.arange(size, dtype=torch.float64, device="cpu")
    whole = range(size) if bandwidth is None else range(-bandwidth + 1, bandwidth)
    values = {(a % size, b % size): _eigenvalue(a, b, size) for a in whole for b in whole}
    planes = sorted(
        {min((a, b), (-a % size, -b % size)) for a, b in values}, key=lambda plane: (round(values[plane], 12), plane)
    )
    functions, spaces, eigenvalues, frequencies = [], [], [], []
    for space, (a, b) in enumerate(planes):
        phase = 2 * math.pi / size * (a * grid[:, None] + b * grid[None, :]).flatten()
        waves = [phase.cos()] if (2 * a % size, 2 * b % size) == (0, 0) else [phase.cos(), phase.sin()]
        for wave in waves:
            functions.append(wave / wave.norm())
            spaces.append(space)
            eigenvalues.append(values[a, b])
            frequencies.append((a, b))
    return Harmonics(
        torch.stack(functions, dim=1),
        torch.tensor(spaces, device="cpu"),
        torch.tensor(eigenvalues, dtype=torch.float64, device="cpu"),
        torch.tensor(frequencies, device="cpu"),
    )


def _eigenvalue(a: int, b: int, size: int) -> float:
    """3 − cos α − cos β − cos α cos β at frequency (a, b), with α = 2πa/size and β = 2πb/size."""
    x, y = math.cos(2 * math.pi * a / size), math.cos(2 * math.pi * b / size)
    return 3 - x - y - x * y


def waves(places: Float[Tensor, "places 2"], size: int, bandwidth: int) -> Float[Tensor, "places functions"]:
    """The functions of `harmonics(size, bandwidth)`, in their order, at any places; not normalised.

    Args:
        places: (x, y) on a torus of period 2, on which the grid begins at (−1, −1); y counts rows.
    """
    truth = harmonics(size, bandwidth)
    signed = (truth.frequencies + size // 2) % size - size // 2
    phase = math.pi * (places.double().flip(-1) + 1) @ signed.double().mT
    second = torch.cat([truth.spaces.new_zeros(1), truth.spaces.diff() == 0])  # a plane's sine comes after its cosine
    return torch.where(second.bool(), phase.sin(), phase.cos())


def band_limited(z: Float[Tensor, "*batch points channels"], bandwidth: int) -> Float[Tensor, "*batch points channels"]:
    """Functions on a square grid of the torus, projected onto the frequencies below a bandwidth.

    Raises:
        ValueError: points that are no square, or as in `harmonics`.
    """
    size = math.isqrt(z.shape[-2])
    if size * size != z.shape[-2]:
        raise ValueError(f"{z.shape[-2]} points are not a square grid of the torus")
    functions = harmonics(size, bandwidth).functions.to(z)
    return functions @ (functions.mT @ z)


def laplacian(size: int) -> Float[Tensor, "points points"]:
    """Toric Laplacian by the 3×3 stencil −[[¼, ½, ¼], [½, −3, ½], [¼, ½, ¼]] with periodic borders (paper §4.3)."""
    stencil = {(0, 0): 3.0}
    stencil |= {offset: -0.5 for offset in ((0, 1), (1, 0), (0, -1), (-1, 0))}
    stencil |= {offset: -0.25 for offset in ((1, 1), (1, -1), (-1, 1), (-1, -1))}
    points = size * size
    identity = torch.eye(points, dtype=torch.float64, device="cpu").unflatten(0, (size, size))
    return sum(
        (weight * identity.roll(offset, dims=(0, 1)).flatten(0, 1) for offset, weight in stencil.items()),
        start=torch.zeros(points, points, dtype=torch.float64, device="cpu"),
    )
