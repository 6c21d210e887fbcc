"""Occlusion of images in training and in tests, and encoders that know which pixels are seen.

A pixel that nobody saw is NaN; otherwise it shows the occluder, see `niso.geometry.occluders`.
"""

from __future__ import annotations

import math

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from niso.geometry.occluders import Occluder, draw_occluder, draw_passing
from niso.random import process


class RandomOcclusion(nn.Module):
    """In training, covers a random share of each image, uniform in [0, `share`]; otherwise images stay as they are.

    Batches hold the first views of this process's examples, then the second ones, … What covers them is drawn for the
    global batch with torch's CPU generator: it is the same for any number of processes.

    Args:
        share: largest share of the pixels.
        mark: hidden pixels become NaN, for `SeenPoints`, instead of the occluder's texture.
        views: of each example.

    Raises:
        ValueError: a share outside [0, 1].
    """

    def __init__(self, share: float, mark: bool = False, views: int = 1) -> None:
        super().__init__()
        if not 0 <= share <= 1:
            raise ValueError(f"share must lie in [0, 1], got {share}")
        self.share = share
        self.mark = mark
        self.views = views

    def forward(self, x: Float[Tensor, "batch channels height width"]) -> Float[Tensor, "batch channels height width"]:
        return self.cover(x) if self.training and self.share else x

    @torch.compiler.disable  # compiled code would draw other numbers
    def cover(self, x: Float[Tensor, "batch channels height width"]) -> Float[Tensor, "batch channels height width"]:
        """Cover images, in training or not."""
        rank, world = process()
        count = math.ceil(len(x) / self.views)
        place = torch.arange(len(x))
        return self._occluder(x, count * world, rank * count + place % count, place // count).over(x, self.mark)

    def _occluder(
        self,
        x: Float[Tensor, "batch channels height width"],
        examples: int,
        example: Int[Tensor, " batch"],
        view: Int[Tensor, " batch"],
    ) -> Occluder:
        """What covers images that are these views of these examples, of so many in the global batch."""
        shares = self.share * torch.rand(self.views * examples, device="cpu")
        occluder = draw_occluder(shares, (x.shape[-2], x.shape[-1]))
        return Occluder(*(part[view * examples + example] for part in occluder)).to(x.device)


class PassingOcclusion(RandomOcclusion):
    """The same with an object that passes in front of the camera: both frames of a pair show it, at two places.

    Nothing else ties an object to what is behind it: it has its own texture and moves by itself.

    Args:
        share: largest share of the pixels.
        mark: see `RandomOcclusion`.
        frames: the most frames from the first of a pair to the second.
    """

    def __init__(self, share: float, mark: bool = False, frames: int = 1) -> None:
        super().__init__(share, mark, views=2)
        self.frames = frames

    def _occluder(
        self,
        x: Float[Tensor, "batch channels height width"],
        examples: int,
        example: Int[Tensor, " batch"],
        view: Int[Tensor, " batch"],
    ) -> Occluder:
        objects = draw_passing(examples, x.shape[1])
        share, later = torch.rand(2, examples, device="cpu")
        share, time = self.share * share[example], (self.frames * later[example]).ceil() * view
        share, time = (part.to(x.device, non_blocking=True) for part in (share, time))
        return objects.of(example, x.device).at(time, share, (x.shape[-2], x.shape[-1]))


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
