"""Single observations, which niso transforms itself."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from jaxtyping import Float, Int
from torch import Tensor

from niso.collective import local_part
from niso.data.pairs.sampling.data import BATCH, PairData
from niso.data.pairs.split import Part, Parts
from niso.data.pairs.table import Table
from niso.data.pairs.variation import Variation
from niso.data.transformed import views_of
from niso.geometry.action import Transformations, composes


class TransformedObservations(PairData):
    """Single observations, and what niso makes of them by transformations that it draws.

    Args:
        name: of the transformations.
        transformed_first: whether first views to train on are under transformations of their own; they must compose.
    """

    grouped = True

    def __init__(
        self,
        table: Table,
        parts: Parts,
        memory: float,
        device: torch.device,
        action: Transformations,
        name: str,
        transformed_first: bool = False,
    ) -> None:
        super().__init__(table, parts, memory, device)
        self.action, self.transformed_first = action, transformed_first
        self.paired = f"paired by {name}{', also first views' if transformed_first else ''}"
        self._variation: Variation | None = None
        self.views = 3 if composes(action) else 2

    def vary(self, variation: Variation) -> None:
        if self.table.kind != "images":
            super().vary(variation)
        self._variation = variation

    def sample(self, size: int, views: int = 2, group: int = 1) -> tuple[Float[Tensor, "local ..."], ...]:
        x = self.view("x", self.draw(size, group))  # of a copy in its group, a map would be solved from itself
        if self._variation is not None:
            x = self._variation.draw(x, size)
        return views_of(x, size, self.action, views, group, self.transformed_first)

    def sample_labelled(self, size: int) -> tuple[Float[Tensor, "local ..."], Int[Tensor, " local"]]:
        rows = self.draw(size)
        return self.action.act(self.view("x", rows), local_part(self.action.sample(size))), self.labels(rows)

    def pairs(
        self, part: Part, count: int, generator: torch.Generator
    ) -> Iterator[tuple[Float[Tensor, "batch ..."], ...]]:
        available = self.rows[part]
        order = available[torch.randperm(len(available), generator=generator)]
        index = torch.arange(count)
        rows, others = order[index % len(order)], order[(index + 1) % len(order)]
        drawn = self.action.sample(count, generator)
        for here, there, t in zip(rows.split(BATCH), others.split(BATCH), drawn.split(BATCH), strict=True):
            x, other = self.view("x", here), self.view("x", there)
            yield x, self.action.act(x, t), other, self.action.act(other, t)

    def transformed(
        self, part: Part, count: int, generator: torch.Generator
    ) -> Iterator[tuple[Float[Tensor, "batch ..."], Int[Tensor, " batch"]]]:
        rows = self.chosen_evenly(part, count)
        drawn = self.action.sample(len(rows), generator)
        for here, t in zip(rows.split(BATCH), drawn.split(BATCH), strict=True):
            yield self.action.act(self.view("x", here), t), self.labels(here)
