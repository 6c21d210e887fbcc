"""Circular shifts of functions on a torus, of two axes or three."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import torch
from jaxtyping import Float, Int
from torch import Tensor

from niso.geometry.action import check_kind, on_device_of
from niso.geometry.on_grid import OnGrid


@dataclass(frozen=True)
class Shifts:
    """Circular shifts of functions on a torus, uniformly distributed; see `niso.geometry.action.Action`.

    The torus is size × size, or size × columns, or size × columns × last. Observations are (batch, points, channels),
    in row-major order. Transformations are (batch, axes) integers, any offsets along the axes:
    (Tx)[r, c] = x[r − t₀, c − t₁]. The strength is the length of the shortest equivalent offset, in grid points.

    Attributes:
        size: points along the first axis; 1 where it is a circle.
        columns: along the second; as many as along the first by default.
        last: along the third; None where there is none.

    Raises:
        ValueError: a size is less than 1; `act` raises it for observations on another grid.
    """

    unit: ClassVar[str] = "grid points"

    size: int
    columns: int | None = None
    last: int | None = None

    def __post_init__(self) -> None:
        if min(self.sides) < 1:
            raise ValueError(f"the size of a torus must be positive, not {min(self.sides)}")

    @classmethod
    def of(cls, kind: str, shape: tuple[int, ...]) -> OnGrid:
        """Along all axes of images, volumes or signals; ValueError for others."""
        check_kind(kind, "images", "volumes", "signals")
        channels_first = kind != "signals"
        return OnGrid(cls(*shape[1:]) if channels_first else cls(1, shape[0]), channels_first)

    @property
    def sides(self) -> tuple[int, ...]:
        """Points along each axis of the grid."""
        columns = self.size if self.columns is None else self.columns
        return (self.size, columns) if self.last is None else (self.size, columns, self.last)

    def sample(self, count: int, generator: torch.Generator | None = None) -> Int[Tensor, "count axes"]:
        if len(set(self.sides)) == 1:
            return torch.randint(self.size, (count, len(self.sides)), generator=generator, device="cpu")
        parts = [torch.randint(side, (count,), generator=generator, device="cpu") for side in self.sides]
        return torch.stack(parts, dim=-1)

    def act(
        self, x: Float[Tensor, "batch points channels"], t: Int[Tensor, "#batch axes"]
    ) -> Float[Tensor, "batch points channels"]:
        if x.shape[1] != math.prod(self.sides):
            raise ValueError(f"{x.shape[1]} points are not a {'×'.join(map(str, self.sides))} grid")
        t = on_device_of(x, t)
        source = torch.zeros(len(t), 1, dtype=torch.long, device=x.device)
        for axis, side in enumerate(self.sides):
            places = (torch.arange(side, device=x.device) - t[:, axis, None]) % side
            source = (source[:, :, None] * side + places[:, None, :]).flatten(1)
        return x[torch.arange(len(x), device=x.device)[:, None], source]  # whole rows: gathering takes long

    def compose(self, second: Int[Tensor, "batch axes"], first: Int[Tensor, "batch axes"]) -> Int[Tensor, "batch axes"]:
        return (first + second) % torch.tensor(self.sides, device=first.device)

    def inverse(self, t: Int[Tensor, "batch axes"]) -> Int[Tensor, "batch axes"]:
        return -t % torch.tensor(self.sides, device=t.device)

    def strength(self, t: Int[Tensor, "batch axes"]) -> Float[Tensor, " batch"]:
        sides = torch.tensor(self.sides, device=t.device)
        forward = t % sides
        return forward.minimum(sides - forward).float().norm(dim=-1)
