"""Elastic warps of images: smooth random displacements of all pixels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor

from niso.geometry.action import check_kind, in_single_precision, on_device_of
from niso.geometry.interpolation import interpolated


@dataclass(frozen=True)
class ElasticWarps:
    """Smooth random displacements of images; see `niso.geometry.action.Transformations`.

    They are no group that can be computed with: two warps after one another are no displacement on the same coarse
    grid. Pairs and groups can be made of them, triplets (ψ, Tψ, T²ψ) cannot. Observations are (batch, channels, height,
    width). Transformations are (batch, 2, control, control) displacements (down, right), in half image sides, on an
    even grid with its corners in the corners of the image, and bicubic between: (Tx)(p) = x(p − t(p)). The strength is
    the root mean square of the displacements of the grid; those of the pixels between are somewhat smaller.

    Attributes:
        deviation: standard deviation of each displacement, in half image sides.
        control: points of the coarse grid along each axis.
        background: value around the image.
    """

    unit: ClassVar[str] = "half image sides, root mean square"

    deviation: float = 0.08
    control: int = 4
    background: float = -1.0

    @classmethod
    def of(cls, kind: str, shape: tuple[int, ...]) -> ElasticWarps:
        """Of images; ValueError for others."""
        check_kind(kind, "images")
        return cls()

    def sample(self, count: int, generator: torch.Generator | None = None) -> Float[Tensor, "count 2 control control"]:
        shape = count, 2, self.control, self.control
        return self.deviation * torch.randn(*shape, generator=generator, dtype=torch.float32, device="cpu")

    @in_single_precision
    def act(
        self, x: Float[Tensor, "batch channels height width"], t: Float[Tensor, "#batch 2 control control"]
    ) -> Float[Tensor, "batch channels height width"]:
        height, width = x.shape[2:]
        t = on_device_of(x, t).to(x.dtype)
        fine = torch.nn.functional.interpolate(t, (height, width), mode="bicubic", align_corners=True)
        rows, columns = (torch.linspace(-1, 1, side, dtype=x.dtype, device=x.device) for side in (height, width))
        places = torch.stack([columns.expand(height, width), rows[:, None].expand(height, width)], -1)
        places = (places - fine.flip(1).permute(0, 2, 3, 1)).expand(len(x), height, width, 2)
        return interpolated(x, places, self.background, corners=True)

    def strength(self, t: Float[Tensor, "batch 2 control control"]) -> Float[Tensor, " batch"]:
        return t.square().sum(1).mean((1, 2)).sqrt()
