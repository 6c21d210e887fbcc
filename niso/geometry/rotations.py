"""Rotations of functions on the sphere: exact for band-limited ones, by bilinear interpolation for any."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor

from niso.geometry.action import on_device_of
from niso.geometry.domains import equirectangular, sphere


@dataclass(frozen=True)
class Rotations:
    """Rotations of functions on the size × size Driscoll–Healy grid; see `niso.geometry.action.Action`.

    Observations are (batch, size², channels), the grid points in row-major order. Transformations are (batch, 3, 3)
    matrices R with (Rf)(x) = f(R⁻¹x), drawn in float32 from the uniform (Haar) distribution on SO(3). The strength is
    the angle in degrees, 0 to 180.

    Attributes:
        band: bandwidth of the observations; what they have of other degrees is lost. `sphere.band_limited` limits them.
        exact: whether to rotate by Wigner-D matrices. Otherwise functions of any bandwidth are rotated by bilinear
            interpolation, which is not an isometry, and `band` makes no difference.

    Raises:
        ValueError: see `sphere.check_grid`; `act` raises it for observations on another grid.
    """

    unit: ClassVar[str] = "degrees"

    size: int
    band: int
    exact: bool = True

    def __post_init__(self) -> None:
        sphere.check_grid(self.size, self.size, self.band)

    def sample(self, count: int, generator: torch.Generator | None = None) -> Float[Tensor, "count 3 3"]:
        return random_rotations(count, generator, device="cpu")

    def act(
        self, x: Float[Tensor, "batch points channels"], t: Float[Tensor, "#batch 3 3"]
    ) -> Float[Tensor, "batch points channels"]:
        if x.shape[1] != self.size**2:
            raise ValueError(f"{x.shape[1]} points are not a {self.size}×{self.size} grid")
        t = on_device_of(x, t)
        return rotate(x, t, self.band) if self.exact else resample(x, t)

    def compose(
        self, second: Float[Tensor, "batch 3 3"], first: Float[Tensor, "batch 3 3"]
    ) -> Float[Tensor, "batch 3 3"]:
        return second @ first

    def inverse(self, t: Float[Tensor, "batch 3 3"]) -> Float[Tensor, "batch 3 3"]:
        return t.mT

    def strength(self, t: Float[Tensor, "batch 3 3"]) -> Float[Tensor, " batch"]:
        return sphere.angles(t).rad2deg()


def random_rotations(
    count: int,
    generator: torch.Generator | None = None,
    dtype: torch.dtype = torch.float32,
    device: torch.device | str | None = None,
) -> Float[Tensor, "count 3 3"]:
    """Rotations from the uniform (Haar) distribution on SO(3), by torch's global generator where none is given."""
    return rotation_matrices(torch.randn(count, 4, generator=generator, dtype=dtype, device=device))


def rotation_matrices(quaternions: Float[Tensor, "*batch 4"]) -> Float[Tensor, "*batch 3 3"]:
    """Rotations about v = (x, y, z) by the angle 2 atan2(|v|, w), of quaternions (w, x, y, z) of any length but 0."""
    w, axis = quaternions[..., :1], quaternions[..., 1:]
    x, y, z = axis.unbind(-1)
    zero = torch.zeros_like(x)
    cross = torch.stack((zero, -z, y, z, zero, -x, -y, x, zero), dim=-1).unflatten(-1, (3, 3))
    turn = 2 * (w[..., None] * cross + cross @ cross) / quaternions.square().sum(-1)[..., None, None]
    return torch.eye(3, dtype=turn.dtype, device=turn.device) + turn


def rotate(
    z: Float[Tensor, "batch points channels"], rotations: Float[Tensor, "#batch 3 3"], bandwidth: int
) -> Float[Tensor, "batch points channels"]:
    """Exact rotation of band-limited functions on a Driscoll–Healy grid; what they have of other degrees is lost.

    A left action up to rounding: rotating by R and then by S is rotating by S R.

    Raises:
        ValueError: see `sphere.check_grid`.
    """
    basis = sphere.harmonics(sphere.grid_size(z), bandwidth, z.dtype, z.device)
    coefficients = (basis.functions * basis.weights[:, None]).mT @ z
    return basis.functions @ (sphere.wigner_d(rotations.to(z.dtype), bandwidth) @ coefficients)


def resample(
    z: Float[Tensor, "batch points channels"], rotations: Float[Tensor, "#batch 3 3"]
) -> Float[Tensor, "batch points channels"]:
    """Rotation of any functions on a Driscoll–Healy grid by bilinear interpolation, which is not an isometry.

    Raises:
        ValueError: see `sphere.grid_size`.
    """
    size = sphere.grid_size(z)
    images = z.mT.unflatten(-1, (size, size))
    points = equirectangular.directions(size, size, "driscoll-healy", z.dtype, z.device)
    return equirectangular.sample(images, points @ rotations[:, None].to(z.dtype), "driscoll-healy").flatten(2).mT
