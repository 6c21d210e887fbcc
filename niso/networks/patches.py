"""Squares of pixels as the channels of one, and back."""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor, nn

WIDE = 6
"""Side of squares from which one pass over memory is faster than torch's two (benchmarks/results/shape_grids.json)."""


class ToPatches(nn.Module):
    """`nn.PixelUnshuffle` in one pass over memory, to a channels-last view: what a `Pointwise` layer reads."""

    def __init__(self, side: int) -> None:
        super().__init__()
        self.side = side

    def forward(self, x: Float[Tensor, "batch channel height width"]) -> Float[Tensor, "batch values rows columns"]:
        x = x.unflatten(3, (-1, self.side)).unflatten(2, (-1, self.side))
        return x.permute(0, 2, 4, 1, 3, 5).flatten(3).permute(0, 3, 1, 2)


class FromPatches(nn.Module):
    """`nn.PixelShuffle`, the inverse of `ToPatches`, likewise."""

    def __init__(self, side: int) -> None:
        super().__init__()
        self.side = side

    def forward(self, x: Float[Tensor, "batch values rows columns"]) -> Float[Tensor, "batch channel height width"]:
        x = x.permute(0, 2, 3, 1).unflatten(3, (-1, self.side, self.side))
        return x.permute(0, 3, 1, 4, 2, 5).flatten(4).flatten(2, 3)
