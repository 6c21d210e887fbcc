"""Random changes of single pictures before T is applied, so that a few photographs are as good as many."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from niso.collective import local_part
from niso.geometry.colours import ColourMaps


@dataclass(frozen=True)
class Variation:
    """Pictures mirrored, turned by quarter turns where they are square, and of other colours.

    What T does to a picture is the same whatever its content is, so that the pair remains one.

    Attributes:
        deviation: of the colours, see `ColourMaps`; values are cut off at −1 and 1.
    """

    deviation: float = 0.2

    def draw(self, x: Float[Tensor, "local channels height width"], size: int) -> Float[Tensor, "local channels _ _"]:
        """This process's part of a batch of `size` pictures, varied by torch's global generator."""
        colours = ColourMaps(x.shape[1], self.deviation)
        flips = local_part(torch.rand(size, 3) < 0.5).to(x.device, non_blocking=True)[..., None, None, None]
        maps = local_part(colours.sample(size))
        x = torch.where(flips[:, 0], x.flip(2), x)
        x = torch.where(flips[:, 1], x.flip(3), x)
        if x.shape[2] == x.shape[3]:
            x = torch.where(flips[:, 2], x.mT, x)
        return colours.act(x, maps).clamp(-1, 1)
