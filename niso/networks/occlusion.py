"""Occlusion of images in training, and encoders that know, or find out, which pixels are seen.

A pixel that is known to be unseen is NaN; otherwise it shows the occluder, see `niso.geometry.occluders`.
"""

from __future__ import annotations

import math
from typing import cast

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from niso.collective import process
from niso.geometry.occluders import Occluder, draw_occluder, draw_passing


class RandomOcclusion:
    """Covers a random share of each image, uniform in [0, `share`].

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
        if not 0 <= share <= 1:
            raise ValueError(f"share must lie in [0, 1], got {share}")
        self.share = share
        self.mark = mark
        self.views = views

    def __call__(self, x: Float[Tensor, "batch channels height width"]) -> Float[Tensor, "batch channels height width"]:
        """Covered images."""
        return self.occluder(x).over(x, self.mark)

    def occluder(self, x: Float[Tensor, "batch channels height width"]) -> Occluder:
        """What covers images."""
        if torch.compiler.is_compiling():  # compiled code would draw other numbers
            return cast(Occluder, torch.compiler.disable(self._occluder)(x))  # not a decorator: it imports the compiler
        return self._occluder(x)

    def _occluder(self, x: Float[Tensor, "batch channels height width"]) -> Occluder:
        rank, world = process()
        count = math.ceil(len(x) / self.views)
        place = torch.arange(len(x), device="cpu")
        return self._draw(x, count * world, rank * count + place % count, place // count)

    def _draw(
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

    def _draw(
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
    """An encoder of images of which some pixels are not seen; it adds to the latents how far each point is trusted.

    The encoder gets −1 for unseen pixels: what covers them would reach all points, through its norms and convolutions.
    The last channel of the latents is c = g + (1 − g) s², with the share s of the pixels of a latent point's cell that
    are seen, squared, since a cell at the edge of what is seen is half guessed. How far a guess is trusted, g, is
    learned.

    Args:
        encoder: images to latent functions on a grid.
        grid: height and width of that grid; ValueError for another number of sides.
        visibility: predicts the logits of seeing each pixel, see `Visibility`; without it unseen pixels are NaN.
    """

    def __init__(self, encoder: nn.Module, grid: tuple[int, ...], visibility: nn.Module | None = None) -> None:
        super().__init__()
        height, width = grid
        self.encoder = encoder
        self.grid = height, width
        self.visibility = visibility
        self.guess = nn.Parameter(torch.tensor(-2.0))
        """Logit of g."""

    def forward(self, x: Float[Tensor, "batch channels height width"]) -> Float[Tensor, "batch points outputs"]:
        if self.visibility is None:
            unseen = x.isnan()
            seen = (~unseen.any(1, keepdim=True)).to(x.dtype)
            z = self.encoder(x.masked_fill(unseen, -1))
        else:
            seen = nn.functional.hardsigmoid(self.visibility(x)).to(x.dtype)
            z = self.encoder(x * seen + (seen - 1))
        share = nn.functional.adaptive_avg_pool2d(seen.to(z.dtype), self.grid).flatten(1)
        guess = self.guess.to(z.dtype).sigmoid()
        return torch.cat([z, (guess + (1 - guess) * share.square())[..., None]], dim=-1)


class Visibility(nn.Module):
    """Predicts how likely each pixel shows what is observed, not something in front of it: four dilated
    convolutions, with 16 channels between them.

    It begins sure that all is seen, so that the encoder is not disturbed by what has not been trained.

    Args:
        image_channels: of the images.
    """

    start = 4.0
    """Logit that training begins with: a hard sigmoid is 1 from 3 on."""

    def __init__(self, image_channels: int) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        width = image_channels
        for dilation in (1, 2, 4):
            layers += [nn.Conv2d(width, 16, 3, padding=dilation, dilation=dilation), nn.SiLU()]
            width = 16
        self.layers = nn.Sequential(*layers)
        self.logit = nn.Conv2d(width, 1, 3, padding=1)
        nn.init.zeros_(self.logit.weight)
        nn.init.constant_(cast(Tensor, self.logit.bias), self.start)

    def forward(self, x: Float[Tensor, "batch channels height width"]) -> Float[Tensor, "batch 1 height width"]:
        return self.logit(self.layers(x))
