"""Time-warps of periodic signals: moved along the circle, and run faster here and slower there."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor

from niso.geometry.action import check_kind, in_single_precision, on_device_of


@dataclass(frozen=True)
class TimeWarps:
    """Random smooth monotone maps of a circle onto itself; see `niso.geometry.action.Transformations`.

    They are no group that can be computed with: two after one another have more waves than one. Observations are
    signals (batch, length, channels), whose end is next to their beginning. Transformations are (batch, 1 + 2 waves)
    in float32: a shift s in [0, 1), uniform, and numbers aₘ, bₘ. (Tx)(u) = x(φ(u)) by linear interpolation; the speed,
    dφ/du, is 1 + Σ aₘ cos 2πmu + bₘ sin 2πmu, and φ(0) = −s. The strength is a bound of the change of the speed,
    Σ |aₘ| + |bₘ|, plus the shift's distance from a whole turn.

    Attributes:
        deviation: standard deviation of aₘ and bₘ. Where they add up to more than 0.9 they are made smaller, so that
            time never runs backwards.
        waves: number of m.
    """

    unit: ClassVar[str] = "speeds and turns"

    deviation: float = 0.15
    waves: int = 3

    @classmethod
    def of(cls, kind: str, shape: tuple[int, ...]) -> TimeWarps:
        """Of signals; ValueError for others."""
        check_kind(kind, "signals")
        return cls()

    def sample(self, count: int, generator: torch.Generator | None = None) -> Float[Tensor, "count numbers"]:
        shift = torch.rand(count, 1, generator=generator, dtype=torch.float32, device="cpu")
        noise = torch.randn(count, 2 * self.waves, generator=generator, dtype=torch.float32, device="cpu")
        speeds = self.deviation * noise
        return torch.cat([shift, speeds * (0.9 / speeds.abs().sum(1, keepdim=True)).clamp(max=1)], 1)

    @in_single_precision
    def act(
        self, x: Float[Tensor, "batch length channels"], t: Float[Tensor, "#batch numbers"]
    ) -> Float[Tensor, "batch length channels"]:
        length = x.shape[1]
        t = on_device_of(x, t).to(x.dtype)
        angle = 2 * math.pi / length * torch.arange(length, dtype=x.dtype, device=x.device)
        time = angle / (2 * math.pi) - t[:, :1]
        for m in range(1, self.waves + 1):
            a, b = t[:, 2 * m - 1, None], t[:, 2 * m, None]
            time = time + (a * (m * angle).sin() + b * (1 - (m * angle).cos())) / (2 * math.pi * m)
        place = time * length
        before = place.floor()
        part = (place - before)[..., None]
        index = (before.long() % length)[..., None].expand(len(x), -1, x.shape[2])
        return x.gather(1, index) * (1 - part) + x.gather(1, (index + 1) % length) * part

    def strength(self, t: Float[Tensor, "batch numbers"]) -> Float[Tensor, " batch"]:
        shift = t[:, 0] % 1
        return t[:, 1:].abs().sum(1) + shift.minimum(1 - shift)
