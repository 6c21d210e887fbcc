"""What stands, or passes, in front of a camera: rectangles and blobs, plain or textured, and which pixels they hide."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

TEXTURE = 8
"""Side of the random grids that occluders get their texture from."""
OUTLINE = 5
"""Side of the random grids whose level sets are the outlines of still blobs."""
WAVES = (2, 3, 4)
"""Frequencies of the outlines of moving blobs, in periods around the centre."""
SLOWEST, FASTEST = 1 / 60, 1 / 10
"""Speeds of moving objects, in image sides per frame."""


class Occluder(NamedTuple):
    """What stands in front of images.

    Attributes:
        covered: pixels that it hides.
        texture: what is seen there instead, in [−1, 1].
    """

    covered: Bool[Tensor, "batch 1 height width"]
    texture: Float[Tensor, "batch channels height width"]

    def over(
        self, x: Float[Tensor, "batch channels height width"], mark: bool = False
    ) -> Float[Tensor, "batch channels height width"]:
        """Images behind it; with `mark`, NaN where it hides them."""
        return x.masked_fill(self.covered, torch.nan) if mark else self.texture.to(x.dtype).where(self.covered, x)

    def to(self, device: torch.device) -> Occluder:
        """The same on another device."""
        return Occluder(*(part.to(device, non_blocking=True) for part in self))


def draw_occluder(
    share: Float[Tensor, " batch"], size: tuple[int, int], generator: torch.Generator | None = None
) -> Occluder:
    """A rectangle or a blob, half of each, for every image, drawn on the CPU; grey or textured, half of each.

    Args:
        share: of each image's pixels that is covered, in [0, 1]; a rectangle meets it to a row and a column, and has at
            least one pixel where it is not 0.
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
    area = (low * height * width).round()  # a single row or column has it where the other side would be 0
    tall, wide = tall.where(wide > 0, area).clamp_min(1), wide.where(tall > 0, area).clamp_min(1)
    top, left = (uniform() * (height - tall + 1)).floor(), (uniform() * (width - wide + 1)).floor()
    rows, columns = (torch.arange(side, device="cpu") for side in (height, width))
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


class PassingObjects(NamedTuple):
    """Objects that pass to and fro in front of cameras, turning as they go: each is seen by one camera.

    Lengths are in sides of the image, times in frames.

    Attributes:
        start: place (x, y) of the centre at time 0; places are unfolded, a centre turns back at the image's edges.
        velocity: of the centre.
        angle, spin: orientation at time 0, and its change (radians, radians a frame).
        aspect: width divided by height.
        boxes: whether the object is a rectangle; otherwise it is a blob.
        outline: cosine and sine coefficients of the radius of a blob, relative to the mean radius, see `WAVES`.
        texels: colours in [−1, 1], which move with the object.
    """

    start: Float[Tensor, "objects 2"]
    velocity: Float[Tensor, "objects 2"]
    angle: Float[Tensor, " objects"]
    spin: Float[Tensor, " objects"]
    aspect: Float[Tensor, " objects"]
    boxes: Bool[Tensor, " objects"]
    outline: Float[Tensor, "objects waves 2"]
    texels: Float[Tensor, "objects channels side side"]

    def of(self, index: Int[Tensor, " chosen"], device: torch.device | None = None) -> PassingObjects:
        """Some of the objects, by their numbers; on another device if one is given."""
        return PassingObjects(*(part[index.to(part.device)].to(device, non_blocking=True) for part in self))

    def at(self, time: Float[Tensor, " objects"], share: Float[Tensor, " objects"], size: tuple[int, int]) -> Occluder:
        """The objects at a time each, as large as it takes to cover the given share of the image.

        Args:
            time: in frames.
            share: of the pixels that each covers, met to half a pixel, in [0, 1].
            size: height and width of the image in pixels.
        """
        (height, width), device, dtype = size, self.start.device, self.start.dtype
        place = self.start + self.velocity * time[:, None]
        centre = 1 - (1 - place.remainder(2)).abs()
        x = (torch.arange(width, device=device, dtype=dtype) + 0.5) / width - centre[:, :1]
        y = (torch.arange(height, device=device, dtype=dtype) + 0.5) / height - centre[:, 1:]
        turned = (self.angle + self.spin * time)[:, None, None]
        cos, sin, stretch = turned.cos(), turned.sin(), self.aspect.sqrt()[:, None, None]
        x, y = x[:, None, :], y[:, :, None]
        u, v = (cos * x + sin * y) / stretch, (cos * y - sin * x) * stretch
        radius = torch.ones_like(u)
        around = torch.atan2(v, u)
        for wave, coefficients in zip(WAVES, self.outline.unbind(1), strict=True):
            a, b = coefficients[:, :, None, None].unbind(1)
            radius = radius + a * (wave * around).cos() + b * (wave * around).sin()
        # The pixels nearest to the centre, in a distance whose circles have the object's outline
        distance = torch.maximum(u.abs(), v.abs()).where(self.boxes[:, None, None], torch.hypot(u, v) / radius)
        pixels = (share * height * width).round().long()[:, None]
        furthest = distance.flatten(1).sort(1).values.gather(1, (pixels - 1).clamp_min(0))
        covered = (distance <= furthest[..., None]) & (pixels > 0)[..., None]
        texture = nn.functional.grid_sample(
            self.texels, 2 * torch.stack((u, v), dim=-1), padding_mode="reflection", align_corners=False
        )
        return Occluder(covered[:, None], texture)


def draw_passing(count: int, channels: int = 3, generator: torch.Generator | None = None) -> PassingObjects:
    """Random objects, drawn on the CPU: half of them rectangles, from one colour to a strong texture.

    Args:
        count: number of objects.
        channels: of the images.
    """

    def uniform(least: int | float, most: int | float, *shape: int) -> Tensor:
        return least + (most - least) * torch.rand(count, *shape, generator=generator, device="cpu")

    heading, speed = uniform(0, 2 * math.pi), uniform(math.log(SLOWEST), math.log(FASTEST)).exp()
    waves = torch.tensor(WAVES, device="cpu")[:, None]
    colour, contrast = uniform(-1, 1, channels, 1, 1), uniform(0, 1, 1, 1, 1)
    return PassingObjects(
        start=uniform(0, 2, 2),
        velocity=speed[:, None] * torch.stack((heading.cos(), heading.sin()), dim=-1),
        angle=uniform(0, 2 * math.pi),
        spin=uniform(-0.05, 0.05),
        aspect=uniform(-0.7, 0.7).exp(),
        boxes=uniform(0, 1) < 0.5,
        outline=uniform(-0.5, 0.5, len(WAVES), 2) / waves,  # their sum stays below 1: radii are positive
        texels=(colour + contrast * uniform(-1, 1, channels, TEXTURE, TEXTURE)).clamp(-1, 1),
    )
