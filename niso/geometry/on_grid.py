"""Actions on functions on a grid, applied to images, volumes and signals."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float, Shaped
from torch import Tensor

from niso.geometry.action import Action


@dataclass(frozen=True)
class OnGrid:
    """An action on functions on a grid (batch, points, channels), applied to images, volumes or signals.

    Attributes:
        action: on the points of the grid, row by row.
        channels_first: observations are images or volumes (batch, channels, …); otherwise they are signals.
    """

    action: Action
    channels_first: bool

    @property
    def unit(self) -> str:
        """Of the strength."""
        return self.action.unit

    def sample(self, count: int, generator: torch.Generator | None = None) -> Shaped[Tensor, "count ..."]:
        return self.action.sample(count, generator)

    def act(self, x: Float[Tensor, "batch ..."], t: Shaped[Tensor, "#batch ..."]) -> Float[Tensor, "batch ..."]:
        if not self.channels_first:
            return self.action.act(x, t)
        return self.action.act(x.flatten(2).mT, t).mT.unflatten(-1, x.shape[2:])

    def compose(
        self, second: Shaped[Tensor, "batch ..."], first: Shaped[Tensor, "batch ..."]
    ) -> Shaped[Tensor, "batch ..."]:
        return self.action.compose(second, first)

    def inverse(self, t: Shaped[Tensor, "batch ..."]) -> Shaped[Tensor, "batch ..."]:
        return self.action.inverse(t)

    def strength(self, t: Shaped[Tensor, "batch ..."]) -> Float[Tensor, " batch"]:
        return self.action.strength(t)
