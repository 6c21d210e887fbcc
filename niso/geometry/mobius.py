"""Möbius transformations of the sphere: PSL(2, C) as its orientation-preserving conformal maps.

A transformation is a complex 2×2 matrix g = [[a, b], [c, d]] of determinant 1; −g is the same one. It acts on the
stereographic coordinate ζ = (x + iy) / (1 − z) as ζ ↦ (aζ + b) / (cζ + d). It is computed without dividing by what
may vanish: a unit vector p is the light ray (1, p) of space-time, on which g acts as the Lorentz transformation

    ½ (t + z, x + iy; x − iy, t − z) ↦ g ½ (t + z, x + iy; x − iy, t − z) gᴴ

and (t, q) is the direction q / t again. gh is the transformation h followed by g, `g @ h`.
"""

from __future__ import annotations

from functools import lru_cache

import torch
from jaxtyping import Complex, Float
from torch import Tensor

from niso.geometry import equirectangular
from niso.geometry.equirectangular import Layout


def normalised(matrices: Complex[Tensor, "*batch 2 2"]) -> Complex[Tensor, "*batch 2 2"]:
    """The multiple of determinant 1 of an invertible matrix, which is the same transformation."""
    a, b, c, d = matrices.flatten(-2).unbind(-1)
    return matrices / (a * d - b * c).sqrt()[..., None, None]


def inverse(matrices: Complex[Tensor, "*batch 2 2"]) -> Complex[Tensor, "*batch 2 2"]:
    """Inverse of matrices of determinant 1, without a solver."""
    a, b, c, d = matrices.flatten(-2).unbind(-1)
    return torch.stack((d, -b, -c, a), dim=-1).unflatten(-1, (2, 2))


def rotation(quaternions: Float[Tensor, "*batch 4"]) -> Complex[Tensor, "*batch 2 2"]:
    """The rotation of a quaternion (w, x, y, z) of any length but 0, as `sphere.rotation_matrices` has it."""
    w, x, y, z = (quaternions / quaternions.norm(dim=-1, keepdim=True)).unbind(-1)
    entries = ((w, z), (-y, x), (y, x), (w, -z))
    return torch.stack([torch.complex(*entry) for entry in entries], dim=-1).unflatten(-1, (2, 2))


def boost(centre: Float[Tensor, "*batch 3"]) -> Complex[Tensor, "*batch 2 2"]:
    """The transformation that draws the sphere towards a point c of the open unit ball, without rotation.

    On the ball it is the hyperbolic translation from 0 to c: on the sphere

        p ↦ (1 − |c|²) (p + c) / |p + c|² + c.

    It contracts lengths at c/|c| by (1 + |c|) / (1 − |c|) and stretches them by as much at the antipode.
    """
    x, y, z = centre.unbind(-1)
    zero = torch.zeros_like(x)
    entries = ((1 + z, zero), (x, y), (x, -y), (1 - z, zero))
    scale = (1 - centre.square().sum(-1)).rsqrt()[..., None, None]
    return torch.stack([torch.complex(*entry) for entry in entries], dim=-1).unflatten(-1, (2, 2)) * scale


def sample(
    count: int,
    strength: float = 0.5,
    generator: torch.Generator | None = None,
    dtype: torch.dtype = torch.float32,
    device: torch.device | str | None = None,
) -> Complex[Tensor, "count 2 2"]:
    """Random transformations: a boost, then a Haar-uniform rotation; torch's global generator by default.

    The distribution is invariant under rotations from both sides.

    Args:
        strength: standard deviation of the normal distribution of r, where the boost goes in a uniform direction and
            changes lengths by factors from e^(−r) to e^r; 0 gives rotations alone.
    """
    noise = torch.randn(count, 8, generator=generator, dtype=dtype, device=device)
    direction = noise[:, :3] / noise[:, :3].norm(dim=-1, keepdim=True)
    return rotation(noise[:, 4:]) @ boost(direction * (strength / 2 * noise[:, 3:4]).tanh())


def lorentz(matrices: Complex[Tensor, "*batch 2 2"]) -> Float[Tensor, "*batch 4 4"]:
    """Lorentz transformations of (t, x, y, z): orthogonal in the metric (−, +, +, +) where the determinant is 1."""
    basis = _pauli(matrices.dtype, matrices.device)
    moved = matrices[..., None, :, :] @ basis @ matrices.mH[..., None, :, :]
    return torch.einsum("mij,...nji->...mn", basis, moved).real / 2


def act(
    matrices: Complex[Tensor, "*batch 2 2"], directions: Float[Tensor, "*#batch points 3"]
) -> Float[Tensor, "*batch points 3"]:
    """Where unit vectors go. Smooth in both arguments, everywhere."""
    time, space = _rays(matrices, directions)
    return space / time


def conformal_factor(
    matrices: Complex[Tensor, "*batch 2 2"], directions: Float[Tensor, "*#batch points 3"]
) -> Float[Tensor, "*batch points"]:
    """By how much lengths at unit vectors are stretched. Areas are stretched by its square, whose mean is 1."""
    return 1 / _rays(matrices, directions)[0][..., 0]


def warp(
    images: Float[Tensor, "batch channels height width"],
    matrices: Complex[Tensor, "#batch 2 2"],
    layout: Layout = "driscoll-healy",
) -> Float[Tensor, "batch channels height width"]:
    """Functions on an equirectangular grid under transformations: the value at p is the function's at g⁻¹p.

    A left action: warping by g, then by h, is warping by h g up to interpolation, which is bilinear.

    Args:
        matrices: of determinant 1; one, or one for each image.
        layout: where the grid's points lie, see `equirectangular`.

    Raises:
        ValueError: see `equirectangular.sample`.
    """
    height, width = images.shape[-2:]
    real = matrices.real.dtype
    points = equirectangular.directions(height, width, layout, real, matrices.device).flatten(0, 1)
    places = act(inverse(matrices), points).unflatten(-2, (height, width))
    return equirectangular.sample(images, places, layout)


def _rays(matrices: Tensor, directions: Tensor) -> tuple[Tensor, Tensor]:
    transform = lorentz(matrices)
    moved = transform[..., None, :, 0] + directions @ transform[..., 1:].mT
    return moved[..., :1], moved[..., 1:]


@lru_cache
@torch.inference_mode(False)
def _pauli(dtype: torch.dtype, device: torch.device) -> Complex[Tensor, "4 2 2"]:
    """Matrices of t, x, y, z in the module's convention; tr(σₘ σₙ) = 2 δₘₙ."""
    t, x, y, z = [[1, 0], [0, 1]], [[0, 1], [1, 0]], [[0, 1j], [-1j, 0]], [[1, 0], [0, -1]]
    return torch.tensor([t, x, y, z], dtype=dtype, device=device)
