"""Occlusion of images in training and in tests, and encoders that know which pixels are seen.

A pixel that nobody saw is NaN. Occluders that look like anything else are rectangles and blobs, grey or textured.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from niso.random import process

TEXTURE = 8
"""Side of the random grids that occluders get their texture from."""
OUTLINE = 5
"""Side of the random grids whose level sets are the outlines of blobs."""


class Occluder(NamedTuple):
    """What stands in front of images.

    Attributes:
        covered: pixels that it hides.
        texture: what is seen there instead, in [−1, 1].
    """

    covered: Bool[Tensor, "batch 1 height width"]
    texture: Float[Tensor, "batch 1 height width"]

    def over(
        self, x: Float[Tensor, "batch channels height width"], mark: bool = False
    ) -> Float[Tensor, "batch channels height width"]:
        """Images behind it; with `mark`, NaN where it hides them."""
        return x.masked_fill(self.covered, torch.nan) if mark else self.texture.to(x.dtype).where(self.covered, x)


def draw_occluder(
    share: Float[Tensor, " batch"], size: tuple[int, int], generator: torch.Generator | None = None
) -> Occluder:
    """A rectangle or a blob, half of each, for every image, drawn on the CPU; grey or textured, half of each.

    Args:
        share: of each image's pixels that is covered, in [0, 1]; a rectangle meets it to a row and a column.
        size: height and width of the images in pixels.
    """
    batch, (height, width) = len(share), size

    def uniform(*shape: int) -> Tensor:
        return torch.rand(batch, *shape, generator=generator, device="cpu")

    def field(side: int) -> Tensor:
        return nn.functional.interpolate(uniform(1, side, side), size, mode="bicubic", align_corners=True)[:, 0]

    share = share.cpu()
    # A rectangle of this area, its sides at most the image's, anywhere inside the image
    low = share.clamp_min(1e-6)
    relative_height = low ** uniform()
    tall, wide = (relative_height * height).round(), (low / relative_height * width).round()
    top, left = (uniform() * (height - tall + 1)).floor(), (uniform() * (width - wide + 1)).floor()
    rows, columns = torch.arange(height), torch.arange(width)
    in_rows = (rows >= top[:, None]) & (rows < (top + tall)[:, None])
    in_columns = (columns >= left[:, None]) & (columns < (left + wide)[:, None])
    rectangle = in_rows[:, :, None] & in_columns[:, None, :]
    # The highest pixels of a smooth random field
    rank = field(OUTLINE).flatten(1).argsort(1).argsort(1).view(batch, height, width)
    blob = rank >= ((1 - share) * height * width).round()[:, None, None]
    covered = rectangle.where((uniform() < 0.5)[:, None, None], blob) & (share > 0)[:, None, None]
    grey, textured = 2 * uniform(1, 1) - 1, (2 * field(TEXTURE) - 1).clamp(-1, 1)
    texture = grey.where((uniform() < 0.5)[:, None, None], textured)
    return Occluder(covered[:, None], texture[:, None])


class RandomOcclusion(nn.Module):
    """In training, covers a random share of each image, uniform in [0, `share`]; otherwise images stay as they are.

    It draws for the whole global batch with torch's CPU generator, so that processes do not matter.

    Args:
        share: largest share of the pixels.
        mark: hidden pixels become NaN, for `SeenPoints`, instead of the occluder's texture.

    Raises:
        ValueError: a share outside [0, 1].
    """

    def __init__(self, share: float, mark: bool = False) -> None:
        super().__init__()
        if not 0 <= share <= 1:
            raise ValueError(f"share must lie in [0, 1], got {share}")
        self.share = share
        self.mark = mark

    def forward(self, x: Float[Tensor, "batch channels height width"]) -> Float[Tensor, "batch channels height width"]:
        return self.cover(x) if self.training and self.share else x

    def cover(self, x: Float[Tensor, "batch channels height width"]) -> Float[Tensor, "batch channels height width"]:
        """Cover images, in training or not."""
        rank, world = process()
        occluder = draw_occluder(self.share * torch.rand(len(x) * world, device="cpu"), (x.shape[-2], x.shape[-1]))
        part = slice(rank * len(x), (rank + 1) * len(x))
        return Occluder(*(tensor[part].to(x.device, non_blocking=True) for tensor in occluder)).over(x, self.mark)


class SeenPoints(nn.Module):
    """An encoder of images whose unseen pixels are NaN; it adds to the latents how far each point is seen.

    The encoder gets −1 for unseen pixels. The last channel of the latents is the share of the pixels of each latent
    point's cell that are seen, squared, since a cell at the edge of what is seen is half guessed.

    Args:
        encoder: images to latent functions on a grid.
        grid: height and width of that grid.
    """

    def __init__(self, encoder: nn.Module, grid: tuple[int, int]) -> None:
        super().__init__()
        self.encoder = encoder
        self.grid = grid

    def forward(self, x: Float[Tensor, "batch channels height width"]) -> Float[Tensor, "batch points outputs"]:
        unseen = x.isnan()
        z = self.encoder(x.masked_fill(unseen, -1))
        seen = (~unseen.any(1, keepdim=True)).to(z.dtype)
        share = nn.functional.adaptive_avg_pool2d(seen, self.grid).flatten(1)
        return torch.cat([z, share.square()[..., None]], dim=-1)


class PredictedConfidence(nn.Module):
    """An encoder whose last latent channel becomes a confidence in [0, 1], which the losses alone teach it.

    Args:
        encoder: observations to latent functions (batch, points, channels + 1).
    """

    start = 2.0
    """Added before the sigmoid, so that training begins with a confidence of about 0.88 everywhere."""

    def __init__(self, encoder: nn.Module) -> None:
        super().__init__()
        self.encoder = encoder

    def forward(self, x: Tensor) -> Float[Tensor, "batch points outputs"]:
        z = self.encoder(x)
        return torch.cat([z[..., :-1], torch.sigmoid(z[..., -1:] + self.start)], dim=-1)
