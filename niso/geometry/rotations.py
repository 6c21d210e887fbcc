"""Rotations of functions on the sphere: exact for band-limited ones, by bilinear interpolation for any."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor

from niso.geometry.action import Action, check_kind, in_single_precision, on_device_of
from niso.geometry.affine import AffineMaps
from niso.geometry.domains import equirectangular, sphere
from niso.geometry.se3 import hat
from niso.linalg import matmul


class RotationGroup:
    """The group SO(3), for actions on functions of any kind: all but `act` of `niso.geometry.action.Action`.

    Transformations are (batch, 3, 3) matrices R, drawn in float32 from the uniform (Haar) distribution. The strength is
    the angle in degrees, 0 to 180.
    """

    unit: ClassVar[str] = "degrees"

    def sample(self, count: int, generator: torch.Generator | None = None) -> Float[Tensor, "count 3 3"]:
        return rotation_matrices(torch.randn(count, 4, generator=generator, dtype=torch.float32, device="cpu"))

    def compose(
        self, second: Float[Tensor, "batch 3 3"], first: Float[Tensor, "batch 3 3"]
    ) -> Float[Tensor, "batch 3 3"]:
        return matmul(second, first)

    def inverse(self, t: Float[Tensor, "batch 3 3"]) -> Float[Tensor, "batch 3 3"]:
        return t.mT

    def strength(self, t: Float[Tensor, "batch 3 3"]) -> Float[Tensor, " batch"]:
        return sphere.angles(t).rad2deg()


@dataclass(frozen=True)
class Rotations(RotationGroup):
    """Rotations of functions on the size × size Driscoll–Healy grid; see `niso.geometry.action.Action`.

    Observations are (batch, size², channels), the grid points in row-major order, and (Rf)(x) = f(R⁻¹x). Matrices and
    their strength are those of `RotationGroup`.

    Attributes:
        band: bandwidth of the observations; what they have of other degrees is lost. `sphere.band_limited` limits them.
        exact: whether to rotate by Wigner-D matrices. Otherwise functions of any bandwidth are rotated by bilinear
            interpolation, which is not an isometry, and `band` makes no difference.

    Raises:
        ValueError: see `sphere.check_grid`; `act` raises it for observations on another grid.
    """

    size: int
    band: int
    exact: bool = True

    @classmethod
    def of(cls, kind: str, shape: tuple[int, ...]) -> Action:
        """Rotations of the plane for images, and of space for volumes; ValueError for others."""
        from niso.geometry.turns import Turns  # which builds on this module

        check_kind(kind, "images", "volumes")
        if kind == "volumes":
            return Turns.of(kind, shape)
        return replace(AffineMaps.of(kind, shape), scale=0.0, shear=0.0, shift=0.0)

    def __post_init__(self) -> None:
        sphere.check_grid(self.size, self.size, self.band)

    @in_single_precision
    def act(
        self, x: Float[Tensor, "batch points channels"], t: Float[Tensor, "#batch 3 3"]
    ) -> Float[Tensor, "batch points channels"]:
        if x.shape[1] != self.size**2:
            raise ValueError(f"{x.shape[1]} points are not a {self.size}×{self.size} grid")
        t = on_device_of(x, t).to(x.dtype)
        if self.exact:
            basis = sphere.harmonics(self.size, self.band, x.dtype, x.device)
            coefficients = (basis.functions * basis.weights[:, None]).mT @ x
            return basis.functions @ (sphere.wigner_d(t, self.band) @ coefficients)
        points = equirectangular.directions(self.size, self.size, "driscoll-healy", x.dtype, x.device)
        images = x.mT.unflatten(-1, (self.size, self.size))
        return equirectangular.sample(images, points @ t[:, None], "driscoll-healy").flatten(2).mT


def rotation_matrices(quaternions: Float[Tensor, "*batch 4"]) -> Float[Tensor, "*batch 3 3"]:
    """Rotations about v = (x, y, z) by the angle 2 atan2(|v|, w), of quaternions (w, x, y, z) of any length but 0."""
    w, cross = quaternions[..., :1], hat(quaternions[..., 1:])
    turn = 2 * (w[..., None] * cross + matmul(cross, cross)) / quaternions.square().sum(-1)[..., None, None]
    return torch.eye(3, dtype=turn.dtype, device=turn.device) + turn
