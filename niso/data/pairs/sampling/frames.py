"""Frames of clips, paired with those nearby."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from niso.collective import local_part
from niso.data.pairs.sampling.data import BATCH, PairData
from niso.data.pairs.split import PARTS, Part, Parts
from niso.data.pairs.table import Table
from niso.errors import InputError, counted


class NeighbouringFrames(PairData):
    """Pairs of frames of one clip, at most `skip` frames apart, in either order."""

    def __init__(self, table: Table, parts: Parts, memory: float, device: torch.device, skip: int) -> None:
        super().__init__(table, parts, memory, device)
        assert table.clip is not None
        clips = counted(len(np.unique(table.clip)), "clip")
        self.skip, self.paired = skip, f"frames of {clips}, paired at most {skip} apart"
        clip = torch.from_numpy(table.clip)
        self._last: dict[Part, Int[Tensor, " rows"]] = {}
        """For each row of a part, the last row of its stretch: consecutive rows of one clip in one part."""
        for part, rows in self.rows.items():
            ends = torch.ones(len(rows), dtype=torch.bool)
            ends[:-1] = (rows[1:] != rows[:-1] + 1) | (clip[rows[1:]] != clip[rows[:-1]])
            last = rows[ends]
            self._last[part] = last[torch.searchsorted(last, rows)]
            before = rows < self._last[part]
            if not before.any():
                problem = f"{table.name}: no two of the frames {PARTS[part]} can be paired"
                raise InputError(f"{problem}: give more; are these classes? give --transform")
            self.rows[part], self._last[part] = rows[before], self._last[part][before]

    def sample(self, size: int, views: int = 2, group: int = 1) -> tuple[Float[Tensor, "local ..."], ...]:
        first, second = (local_part(rows) for rows in self._draw_pairs("train", size))
        return self.view("x", first), self.view("x", second)

    def _draw_pairs(self, part: Part, size: int, generator: torch.Generator | None = None) -> tuple[Tensor, Tensor]:
        index = torch.randint(len(self.rows[part]), (size,), generator=generator)
        first, last = self.rows[part][index], self._last[part][index]
        reach = (last - first).clamp(max=self.skip)
        second = first + 1 + (torch.rand(size, generator=generator) * reach).long()
        swapped = torch.rand(size, generator=generator) < 0.5
        return torch.where(swapped, second, first), torch.where(swapped, first, second)

    def pairs(
        self, part: Part, count: int, generator: torch.Generator
    ) -> Iterator[tuple[Float[Tensor, "batch ..."], ...]]:
        for first, second in zip(
            *(rows.split(BATCH) for rows in self._draw_pairs(part, count, generator)), strict=True
        ):
            yield self.view("x", first), self.view("x", second)

    def transformed(
        self, part: Part, count: int, generator: torch.Generator
    ) -> Iterator[tuple[Float[Tensor, "batch ..."], Int[Tensor, " batch"]]]:
        return iter(())
