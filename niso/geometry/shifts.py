"""Circular shifts of functions on the torus Z_n × Z_n."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from jaxtyping import Float, Int
from torch import Tensor

from niso.geometry.action import on_device_of


@dataclass(frozen=True)
class Shifts:
    """Circular shifts of functions on the size × size torus, uniformly distributed; see `niso.geometry.action.Action`.

    Observations are (batch, size², channels), the grid points in row-major order. Transformations are (batch, 2)
    integers, any offsets in rows and columns: (Tx)[r, c] = x[r − t₀, c − t₁]. The strength is the length of the
    shortest equivalent offset, in grid points.

    Raises:
        ValueError: the size is less than 1; `act` raises it for observations on another grid.
    """

    unit: ClassVar[str] = "grid points"

    size: int

    def __post_init__(self) -> None:
        if self.size < 1:
            raise ValueError(f"the size of a torus must be positive, not {self.size}")

    def sample(self, count: int, generator: torch.Generator | None = None) -> Int[Tensor, "count 2"]:
        return torch.randint(self.size, (count, 2), generator=generator, device="cpu")

    def act(
        self, x: Float[Tensor, "batch points channels"], t: Int[Tensor, "#batch 2"]
    ) -> Float[Tensor, "batch points channels"]:
        if x.shape[1] != self.size**2:
            raise ValueError(f"{x.shape[1]} points are not a {self.size}×{self.size} grid")
        t = on_device_of(x, t)
        index = torch.arange(self.size, device=x.device)
        rows = (index - t[:, :1]) % self.size
        columns = (index - t[:, 1:]) % self.size
        source = rows[:, :, None] * self.size + columns[:, None, :]
        return torch.take_along_dim(x, source.flatten(1)[:, :, None], dim=1)

    def compose(self, second: Int[Tensor, "batch 2"], first: Int[Tensor, "batch 2"]) -> Int[Tensor, "batch 2"]:
        return (first + second) % self.size

    def inverse(self, t: Int[Tensor, "batch 2"]) -> Int[Tensor, "batch 2"]:
        return -t % self.size

    def strength(self, t: Int[Tensor, "batch 2"]) -> Float[Tensor, " batch"]:
        forward = t % self.size
        return forward.minimum(self.size - forward).float().norm(dim=-1)
