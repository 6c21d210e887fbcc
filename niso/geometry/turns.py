"""Rotations of volumes about their centre, by trilinear interpolation."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from niso.geometry.action import check_kind, in_single_precision, on_device_of
from niso.geometry.interpolation import interpolated
from niso.geometry.rotation_group import RotationGroup
from niso.linalg import matmul


@dataclass(frozen=True)
class Turns(RotationGroup):
    """Rotations of volumes about their centre; see `niso.geometry.action.Action`.

    Observations are (batch, channels, depth, height, width), of cubic voxels. Matrices act on p = (x, y, z), along
    width, height and depth, with (Rv)(p) = v(R⁻¹p); they and their strength are those of `RotationGroup`. What turns
    into the corners from outside is background: a part of the volume that lies outside of a ball is lost.

    Attributes:
        background: value around the volume; −1 is the smallest where values lie in [−1, 1].
    """

    background: float = -1.0

    @classmethod
    def of(cls, kind: str, shape: tuple[int, ...]) -> Turns:
        """Of volumes; ValueError for others."""
        check_kind(kind, "volumes")
        return cls()

    @in_single_precision
    def act(
        self, x: Float[Tensor, "batch channels depth height width"], t: Float[Tensor, "#batch 3 3"]
    ) -> Float[Tensor, "batch channels depth height width"]:
        t = on_device_of(x, t).to(x.dtype)
        axes = [(2 * torch.arange(side, dtype=x.dtype, device=x.device) + 1 - side) / 2 for side in x.shape[2:]]
        points = torch.stack(torch.meshgrid(*axes, indexing="ij")[::-1], dim=-1)  # (depth, height, width, 3), in voxels
        turned = matmul(points, t[:, None, None]).unbind(-1)  # R⁻¹p
        sides = x.shape[:1:-1]  # width, height, depth
        places = torch.stack([part * (2 / side) for part, side in zip(turned, sides, strict=True)], dim=-1)  # in −1 … 1
        places = places.expand(len(x), *places.shape[1:])
        return interpolated(x, places, self.background, corners=False)
