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
    """Circular shifts of functions on a torus, uniformly distributed; see `niso.geometry.action.Action`.

    The torus is size × size, or size × columns. Observations are (batch, points, channels), in row-major order.
    Transformations are (batch, 2) integers, any offsets in rows and columns: (Tx)[r, c] = x[r − t₀, c − t₁]. The
    strength is the length of the shortest equivalent offset, in grid points.

    Attributes:
        size: rows of the grid; 1 where it is a circle.
        columns: as many as rows by default.

    Raises:
        ValueError: a size is less than 1; `act` raises it for observations on another grid.
    """

    unit: ClassVar[str] = "grid points"

    size: int
    columns: int | None = None

    def __post_init__(self) -> None:
        if min(self.sides) < 1:
            raise ValueError(f"the size of a torus must be positive, not {min(self.sides)}")

    @property
    def sides(self) -> tuple[int, int]:
        """Rows and columns of the grid."""
        return self.size, self.size if self.columns is None else self.columns

    def sample(self, count: int, generator: torch.Generator | None = None) -> Int[Tensor, "count 2"]:
        if self.sides[0] == self.sides[1]:
            return torch.randint(self.size, (count, 2), generator=generator, device="cpu")
        parts = [torch.randint(side, (count,), generator=generator, device="cpu") for side in self.sides]
        return torch.stack(parts, dim=-1)

    def act(
        self, x: Float[Tensor, "batch points channels"], t: Int[Tensor, "#batch 2"]
    ) -> Float[Tensor, "batch points channels"]:
        height, width = self.sides
        if x.shape[1] != height * width:
            raise ValueError(f"{x.shape[1]} points are not a {height}×{width} grid")
        t = on_device_of(x, t)
        rows = (torch.arange(height, device=x.device) - t[:, :1]) % height
        columns = (torch.arange(width, device=x.device) - t[:, 1:]) % width
        source = rows[:, :, None] * width + columns[:, None, :]
        return x[torch.arange(len(x), device=x.device)[:, None], source.flatten(1)]  # whole rows: gathering takes long

    def compose(self, second: Int[Tensor, "batch 2"], first: Int[Tensor, "batch 2"]) -> Int[Tensor, "batch 2"]:
        return (first + second) % torch.tensor(self.sides, device=first.device)

    def inverse(self, t: Int[Tensor, "batch 2"]) -> Int[Tensor, "batch 2"]:
        return -t % torch.tensor(self.sides, device=t.device)

    def strength(self, t: Int[Tensor, "batch 2"]) -> Float[Tensor, " batch"]:
        sides = torch.tensor(self.sides, device=t.device)
        forward = t % sides
        return forward.minimum(sides - forward).float().norm(dim=-1)
