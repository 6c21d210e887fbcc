"""Affine maps of colours: hue, saturation, contrast and brightness of a whole image change at once."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import product
from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor

from niso.geometry.action import check_kind, in_single_precision, on_device_of
from niso.linalg import matmul
from niso.named_values import FROM_DATA

COUNTED = 10
"""Channels up to which all corners of the cube of colours are counted; of more, as many are drawn."""


@dataclass(frozen=True)
class ColourMaps:
    """Affine maps y = Cx + c of the colour x of every pixel; see `niso.geometry.action.Action`.

    They are a group, for values are not cut off: colours may leave −1 … 1. Observations are (batch, channels, height,
    width). Transformations are (batch, channels + 1, channels + 1) matrices that act on (x, 1), exponentials of random
    ones, in float64 as sampled. The strength is the mean distance by which the corners of the cube of colours move; of
    more than 10 channels, 1,024 random corners, always the same.

    Attributes:
        channels: of the images.
        deviation: standard deviation of the entries of the logarithm.
    """

    unit: ClassVar[str] = "half ranges of values"

    channels: int = field(default=3, metadata=FROM_DATA)
    deviation: float = 0.2

    @classmethod
    def of(cls, kind: str, shape: tuple[int, ...]) -> ColourMaps:
        """Of images of so many channels; ValueError for other observations."""
        check_kind(kind, "images")
        return cls(shape[0])

    def sample(self, count: int, generator: torch.Generator | None = None) -> Float[Tensor, "count size size"]:
        size = self.channels + 1
        logarithm = self.deviation * torch.randn(
            count, size, size, generator=generator, dtype=torch.float64, device="cpu"
        )
        logarithm[:, -1] = 0
        return torch.linalg.matrix_exp(logarithm)

    @in_single_precision
    def act(
        self, x: Float[Tensor, "batch channels height width"], t: Float[Tensor, "#batch size size"]
    ) -> Float[Tensor, "batch channels height width"]:
        t = on_device_of(x, t).to(x.dtype)
        mixed = t[:, :-1, :-1] @ x.flatten(2) + t[:, :-1, -1:]
        return mixed.unflatten(2, x.shape[2:])

    def compose(
        self, second: Float[Tensor, "batch size size"], first: Float[Tensor, "batch size size"]
    ) -> Float[Tensor, "batch size size"]:
        return matmul(second, first)

    def inverse(self, t: Float[Tensor, "batch size size"]) -> Float[Tensor, "batch size size"]:
        return torch.linalg.inv(t)

    def strength(self, t: Float[Tensor, "batch size size"]) -> Float[Tensor, " batch"]:
        corners = _corners(self.channels).to(t)
        corners = torch.cat([corners, corners.new_ones(1, corners.shape[1])])
        moved = (t @ corners)[:, :-1] - corners[:-1]
        return moved.norm(dim=1).mean(1)


def _corners(channels: int) -> Float[Tensor, "channels corners"]:
    """Corners of the cube −1 … 1, all of them or, of more than `COUNTED` channels, some that are always the same."""
    if channels <= COUNTED:
        return torch.tensor(list(product((-1.0, 1.0), repeat=channels)), dtype=torch.float64, device="cpu").mT
    generator = torch.Generator().manual_seed(0)
    drawn = torch.randint(2, (channels, 2**COUNTED), generator=generator, dtype=torch.float64, device="cpu")
    return 2 * drawn - 1
