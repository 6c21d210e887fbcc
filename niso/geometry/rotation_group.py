"""The group SO(3) as matrices, for actions on functions on spheres and in space."""

from __future__ import annotations

from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor

from niso.geometry.domains import sphere
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


def rotation_matrices(quaternions: Float[Tensor, "*batch 4"]) -> Float[Tensor, "*batch 3 3"]:
    """Rotations about v = (x, y, z) by the angle 2 atan2(|v|, w), of quaternions (w, x, y, z) of any length but 0."""
    w, cross = quaternions[..., :1], hat(quaternions[..., 1:])
    turn = 2 * (w[..., None] * cross + matmul(cross, cross)) / quaternions.square().sum(-1)[..., None, None]
    return torch.eye(3, dtype=turn.dtype, device=turn.device) + turn
