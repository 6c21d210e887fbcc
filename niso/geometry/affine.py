"""Affine maps of images: turned, scaled, sheared and moved."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import torch
from jaxtyping import Float
from torch import Tensor

from niso.geometry.action import check_images
from niso.geometry.homographies import PlaneMaps
from niso.named_values import FROM_DATA


@dataclass(frozen=True)
class AffineMaps(PlaneMaps):
    """Random affine maps of images; see `niso.geometry.action.Action`.

    They are a subgroup of the homographies, whose conventions hold: points (row, column, 1) in −1 … 1, background
    around the image. Observations are (batch, channels, height, width). Transformations are (batch, 3, 3) matrices of
    last row (0, 0, 1), in float64 as sampled.

    Attributes:
        background: value around the image.
        angle: largest angle of a uniform rotation, in degrees.
        scale: standard deviation of the logarithm of the scale of either axis.
        shear: standard deviation of the shear.
        shift: standard deviation of either coordinate's displacement, in half image sides.
        aspect: width / height of the images between the centres of their outermost pixels, (columns − 1) / (rows − 1),
            so that rotations are rotations of the plane.
    """

    background: float = -1.0
    angle: float = 180.0
    scale: float = 0.15
    shear: float = 0.1
    shift: float = 0.1
    aspect: float = field(default=1.0, metadata=FROM_DATA)

    @classmethod
    def of(cls, kind: str, shape: tuple[int, ...]) -> AffineMaps:
        """Of images of this aspect; ValueError for others, or for images of one row or column."""
        check_images(kind, shape)
        return cls(aspect=(shape[2] - 1) / (shape[1] - 1))

    def inverse(self, t: Float[Tensor, "batch 3 3"]) -> Float[Tensor, "batch 3 3"]:
        """Affine maps as well; not finite for a singular matrix."""
        back = super().inverse(t)
        return back / back[:, 2:, 2:]

    def sample(self, count: int, generator: torch.Generator | None = None) -> Float[Tensor, "count 3 3"]:
        noise = torch.randn(count, 5, generator=generator, dtype=torch.float64, device="cpu")
        turn = torch.rand(count, generator=generator, dtype=torch.float64, device="cpu")
        angle = (2 * turn - 1) * math.radians(self.angle)
        cos, sin = angle.cos(), angle.sin()
        rotation = torch.stack([cos, -sin, sin, cos], -1).unflatten(-1, (2, 2))
        stretch = torch.diag_embed((self.scale * noise[:, :2]).exp())
        stretch[:, 0, 1] = self.shear * noise[:, 2]
        sides = torch.tensor([1.0, self.aspect], dtype=torch.float64, device="cpu")
        matrix = torch.zeros(count, 3, 3, dtype=torch.float64, device="cpu")
        matrix[:, :2, :2] = rotation @ stretch * sides / sides[:, None]  # S⁻¹ A S, S from unit coordinates to the plane
        matrix[:, :2, 2] = self.shift * noise[:, 3:]
        matrix[:, 2, 2] = 1
        return matrix
