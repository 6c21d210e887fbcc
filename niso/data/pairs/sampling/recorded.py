"""Pairs as the user has them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from niso.collective import local_part
from niso.data.evenly import evenly
from niso.data.pairs.sampling.data import BATCH, PairData
from niso.data.pairs.split import Part, Parts
from niso.data.pairs.table import Table
from niso.random import batch_rand

NEAREST = 8
"""Rows of a group among which one is looked for whose observation is not the same, as copies' are."""


class RecordedPairs(PairData):
    """Pairs or triplets as the user has them, perhaps with the number of the T that each has."""

    paired = "paired as given"

    def __init__(self, table: Table, parts: Parts, memory: float, device: torch.device) -> None:
        super().__init__(table, parts, memory, device)
        self.views = len(table.views)
        self._groups = {part: _Groups.of(rows, table.group) for part, rows in self.rows.items()}
        self.grouped = bool((self._groups["train"].sizes > 1).any())
        if table.group is not None and len(self._groups["train"].sizes) == 1:
            alone = "all pairs to train on have one number in group, so that maps have one T to learn"
            self.note = "; ".join(filter(None, [self.note, f"{alone}: where each pair has its own, leave group out"]))

    def sample(self, size: int, views: int = 2, group: int = 1) -> tuple[Float[Tensor, "local ..."], ...]:
        rows = self.draw(size) if group == 1 else self._draw_groups(size, group)
        return tuple(self.view(name, rows) for name in list(self.table.views)[:views])

    def sample_labelled(self, size: int) -> tuple[Float[Tensor, "local ..."], Int[Tensor, " local"]]:
        rows = self.draw(size)
        transformed = batch_rand(len(rows)) < 0.5
        values = torch.cat([self.view("x", rows[~transformed]), self.view("tx", rows[transformed])])
        order = transformed.long().argsort(stable=True).argsort()
        return values[order.to(values.device)], self.labels(rows)

    @property
    def usual_group(self) -> int:
        """Examples in the middle one of the groups to train on."""
        sizes = self._groups["train"].sizes
        return int(sizes[sizes > 1].median()) if self.grouped else 1

    @property
    def largest_group(self) -> int:
        return max(1, int(self._groups["train"].sizes.max()))

    def _draw_groups(self, size: int, group: int) -> Int[Tensor, " local"]:
        ordered, start, sizes = self._groups["train"]
        fitting = (sizes >= group).nonzero()[:, 0]
        chosen = fitting[local_part(torch.multinomial(sizes[fitting].double(), size // group, replacement=True))]
        order = local_part(torch.rand(size // group, int(sizes.max())))
        order[torch.arange(order.shape[1]) >= sizes[chosen][:, None]] = 2.0
        return ordered[start[chosen][:, None] + order.topk(group, largest=False).indices].flatten()

    def pairs(
        self, part: Part, count: int, generator: torch.Generator
    ) -> Iterator[tuple[Float[Tensor, "batch ..."], ...]]:
        rows, others = self._with_partner(part, count)
        alone = others < 0
        for drawn in ((rows[~alone], others[~alone]), (rows[alone],)):
            for batch in zip(*(part.split(BATCH) for part in drawn if len(part)), strict=True):
                yield tuple(self.view(name, rows) for rows in batch for name in ("x", "tx"))

    def _with_partner(self, part: Part, count: int) -> tuple[Int[Tensor, " rows"], Int[Tensor, " rows"]]:
        """At most `count` rows of a part, and for each another one of its group whose x is another, of the `NEAREST`
        before it; −1 where there is none. At least half of the rows are of groups of several, if there are so many.
        """
        ordered, start, sizes = self._groups[part]
        start, sizes = start.repeat_interleave(sizes), sizes.repeat_interleave(sizes)
        shared = sizes > 1
        grouped, single = shared.nonzero()[:, 0], ordered[~shared].sort().values
        share = round(count * len(grouped) / len(ordered))
        grouped = grouped[evenly(max(count // 2, share), len(grouped))]
        single = single[evenly(count - len(grouped), len(single))]
        rows, start, sizes = ordered[grouped], start[grouped], sizes[grouped]
        others = torch.full_like(rows, -1)
        for step in range(1, NEAREST + 1):
            left = ((others < 0) & (step < sizes)).nonzero()[:, 0]
            if not len(left):
                break
            candidates = ordered[start[left] + (grouped[left] - start[left] - step) % sizes[left]]
            pairs = zip(rows[left].split(BATCH), candidates.split(BATCH), strict=True)
            differ = [(self.view("x", row) != self.view("x", other)).flatten(1).any(1).cpu() for row, other in pairs]
            others[left] = candidates.where(torch.cat(differ), -1)
        return torch.cat((rows, single)), torch.cat((others, torch.full_like(single, -1)))

    def transformed(
        self, part: Part, count: int, generator: torch.Generator
    ) -> Iterator[tuple[Float[Tensor, "batch ..."], Int[Tensor, " batch"]]]:
        for rows in self.chosen_evenly(part, count).split(BATCH):
            yield self.view("tx", rows), self.labels(rows)


class _Groups(NamedTuple):
    """Rows in the order of their groups, and where each group starts there and how many rows it has."""

    rows: Int[Tensor, " rows"]
    start: Int[Tensor, " groups"]
    sizes: Int[Tensor, " groups"]

    @classmethod
    def of(cls, rows: Int[Tensor, " rows"], group: np.ndarray | None) -> _Groups:
        """Those of the numbers of groups; without, each row is one."""
        numbers = torch.arange(len(rows)) if group is None else torch.from_numpy(group)[rows]
        _, inverse, sizes = numbers.unique(return_inverse=True, return_counts=True)
        return cls(rows[inverse.argsort(stable=True)], sizes.cumsum(0) - sizes, sizes)
