"""Möbius transformations of the sphere: the group PSL(2, C) of its orientation-preserving conformal maps.

A transformation is a complex 2×2 matrix g = [[a, b], [c, d]] of determinant 1; −g is the same transformation. It maps
the stereographic coordinate ζ = (x + iy) / (1 − z) to (aζ + b) / (cζ + d). To avoid division by a number that may
vanish, a unit vector p is taken as the light ray (1, p) of space-time, on which g acts as the Lorentz transformation

    ½ (t + z, x + iy; x − iy, t − z) ↦ g ½ (t + z, x + iy; x − iy, t − z) gᴴ

and the image (t, q) stands for the unit vector q / t. The product gh, `g @ h`, is h followed by g.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

import torch
from jaxtyping import Complex, Float
from torch import Tensor

from niso.geometry.action import check_images, on_device_of
from niso.geometry.domains import equirectangular
from niso.geometry.domains.equirectangular import Layout
from niso.linalg import matmul


@dataclass(frozen=True)
class MobiusTransformations:
    """Möbius transformations of functions on an equirectangular grid; see `niso.geometry.action.Action`.

    Observations are (batch, channels, height, width). Transformations are (batch, 2, 2) complex matrices of determinant
    1, in complex64 as sampled. The strength is the mean angle, in degrees, by which the six points of the sphere on the
    axes of coordinates move: 0 for the identity only.

    Attributes:
        deviation: standard deviation of r, where the boost of a random transformation changes lengths by factors from
            e^(−r) to e^r and r is normally distributed around 0; 0 gives rotations.
        layout: where the points of the grid lie, see `niso.geometry.domains.equirectangular`.
    """

    unit: ClassVar[str] = "degrees"

    deviation: float = 0.5
    layout: Layout = "driscoll-healy"

    @classmethod
    def of(cls, kind: str, shape: tuple[int, ...]) -> MobiusTransformations:
        """Of images, taken for longitude-latitude grids; ValueError for others, or for images of one row or column."""
        check_images(kind, shape)
        return cls()

    def sample(self, count: int, generator: torch.Generator | None = None) -> Complex[Tensor, "count 2 2"]:
        """A boost in a uniform direction, then a uniform (Haar) rotation: invariant under rotations from both sides."""
        noise = torch.randn(count, 8, generator=generator, dtype=torch.float32, device="cpu")
        direction = noise[:, :3] / noise[:, :3].norm(dim=-1, keepdim=True)
        strength = (self.deviation / 2 * noise[:, 3:4]).double().tanh()  # 1 − tanh² has no digits left in float32
        return (rotation(noise[:, 4:].double()) @ boost(direction * strength)).to(torch.complex64)

    def act(
        self, x: Float[Tensor, "batch channels height width"], t: Complex[Tensor, "#batch 2 2"]
    ) -> Float[Tensor, "batch channels height width"]:
        """The value at p is that of the function at g⁻¹p, by bilinear interpolation."""
        back = self.inverse(on_device_of(x, t).to(torch.promote_types(x.dtype, torch.complex64)))
        height, width = x.shape[-2:]
        points = equirectangular.directions(height, width, self.layout, back.real.dtype, back.device).flatten(0, 1)
        return equirectangular.sample(x, act(back, points).unflatten(-2, (height, width)), self.layout)

    def compose(
        self, second: Complex[Tensor, "batch 2 2"], first: Complex[Tensor, "batch 2 2"]
    ) -> Complex[Tensor, "batch 2 2"]:
        return second @ first

    def inverse(self, t: Complex[Tensor, "batch 2 2"]) -> Complex[Tensor, "batch 2 2"]:
        a, b, c, d = t.flatten(-2).unbind(-1)
        return torch.stack((d, -b, -c, a), dim=-1).unflatten(-1, (2, 2))

    def strength(self, t: Complex[Tensor, "batch 2 2"]) -> Float[Tensor, " batch"]:
        points = torch.eye(3, dtype=t.real.dtype, device=t.device)
        points = torch.cat((points, -points))
        moved = act(t, points)
        angle = torch.atan2(points.expand_as(moved).cross(moved, dim=-1).norm(dim=-1), (points * moved).sum(-1))
        return angle.mean(-1).rad2deg()


def rotation(quaternions: Float[Tensor, "*batch 4"]) -> Complex[Tensor, "*batch 2 2"]:
    """Rotations of quaternions (w, x, y, z) of any length but 0, those of `rotation_group.rotation_matrices`."""
    w, x, y, z = (quaternions / quaternions.norm(dim=-1, keepdim=True)).unbind(-1)
    entries = ((w, z), (-y, x), (y, x), (w, -z))
    return torch.stack([torch.complex(*entry) for entry in entries], dim=-1).unflatten(-1, (2, 2))


def boost(centre: Float[Tensor, "*batch 3"]) -> Complex[Tensor, "*batch 2 2"]:
    """Transformations that draw the sphere towards a point c of the open unit ball, without rotation.

    In the ball such a boost is the hyperbolic translation from 0 to c. On the sphere it is

        p ↦ (1 − |c|²) (p + c) / |p + c|² + c,

    which contracts lengths at c/|c| by the factor (1 + |c|) / (1 − |c|) and stretches them by the same factor at the
    antipode.
    """
    x, y, z = centre.unbind(-1)
    zero = torch.zeros_like(x)
    entries = ((1 + z, zero), (x, y), (x, -y), (1 - z, zero))
    scale = (1 - centre.square().sum(-1)).rsqrt()[..., None, None]
    return torch.stack([torch.complex(*entry) for entry in entries], dim=-1).unflatten(-1, (2, 2)) * scale


def lorentz(matrices: Complex[Tensor, "*batch 2 2"]) -> Float[Tensor, "*batch 4 4"]:
    """Lorentz transformations of (t, x, y, z), orthogonal in the metric (−, +, +, +) if the determinant of g is 1."""
    basis = _pauli(matrices.dtype, matrices.device)
    moved = matrices[..., None, :, :] @ basis @ matrices.mH[..., None, :, :]
    return torch.einsum("mij,...nji->...mn", basis, moved).real / 2


def act(
    matrices: Complex[Tensor, "*batch 2 2"], directions: Float[Tensor, "*#batch points 3"]
) -> Float[Tensor, "*batch points 3"]:
    """Images of unit vectors, as unit vectors; smooth in both arguments everywhere.

    In float64 inside: of what a strong boost moves away from the antipode, float32 has no digits left.
    """
    transform = lorentz(matrices.to(torch.complex128))
    moved = transform[..., None, :, 0] + matmul(directions.double(), transform[..., 1:].mT)
    moved = moved[..., 1:] / moved[..., :1]
    return (moved / moved.norm(dim=-1, keepdim=True)).to(directions.dtype)


@lru_cache
@torch.inference_mode(False)
def _pauli(dtype: torch.dtype, device: torch.device) -> Complex[Tensor, "4 2 2"]:
    """Matrices of t, x, y, z in the convention of this module; tr(σₘ σₙ) = 2 δₘₙ."""
    t, x, y, z = [[1, 0], [0, 1]], [[0, 1], [1, 0]], [[0, 1j], [-1j, 0]], [[1, 0], [0, -1]]
    return torch.tensor([t, x, y, z], dtype=dtype, device=device)
