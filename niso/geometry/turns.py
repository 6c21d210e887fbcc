"""Rotations of volumes about their centre, by trilinear interpolation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor

from niso.geometry.action import in_single_precision, on_device_of
from niso.geometry.domains import sphere
from niso.geometry.rotations import rotation_matrices
from niso.linalg import matmul


@dataclass(frozen=True)
class Turns:
    """Rotations of volumes about their centre; see `niso.geometry.action.Action`.

    Observations are (batch, channels, depth, height, width), of cubic voxels. Transformations are (batch, 3, 3)
    matrices R that act on (x, y, z), along width, height and depth, with (Tv)(p) = v(R⁻¹p); drawn in float32 from the
    uniform (Haar) distribution on SO(3). The strength is the angle in degrees, 0 to 180. What turns into the corners
    from outside is background, so that they are a group only for what a ball in the volume holds.

    Attributes:
        background: value around the volume; −1 is the smallest where values lie in [−1, 1].
    """

    unit: ClassVar[str] = "degrees"

    background: float = -1.0

    def sample(self, count: int, generator: torch.Generator | None = None) -> Float[Tensor, "count 3 3"]:
        return rotation_matrices(torch.randn(count, 4, generator=generator, dtype=torch.float32, device="cpu"))

    @in_single_precision
    def act(
        self, x: Float[Tensor, "batch channels depth height width"], t: Float[Tensor, "#batch 3 3"]
    ) -> Float[Tensor, "batch channels depth height width"]:
        t = on_device_of(x, t).to(x.dtype)
        axes = [(2 * torch.arange(side, dtype=x.dtype, device=x.device) + 1 - side) / 2 for side in x.shape[2:]]
        points = torch.stack(torch.meshgrid(*axes, indexing="ij")[::-1], dim=-1)  # (depth, height, width, 3), in voxels
        halves = torch.tensor(x.shape[:1:-1], dtype=x.dtype, device=x.device) / 2
        places = matmul(points, t[:, None, None]) / halves  # R⁻¹p, each side from −1 to 1
        places = places.expand(len(x), *places.shape[1:])
        shifted = x - self.background
        return torch.nn.functional.grid_sample(shifted, places, align_corners=False) + self.background

    def compose(
        self, second: Float[Tensor, "batch 3 3"], first: Float[Tensor, "batch 3 3"]
    ) -> Float[Tensor, "batch 3 3"]:
        return matmul(second, first)

    def inverse(self, t: Float[Tensor, "batch 3 3"]) -> Float[Tensor, "batch 3 3"]:
        return t.mT

    def strength(self, t: Float[Tensor, "batch 3 3"]) -> Float[Tensor, " batch"]:
        return sphere.angles(t).rad2deg()
