"""How pairs are drawn from observations: what an experiment knows of the user's data."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from functools import lru_cache
from typing import Literal, NamedTuple, get_args

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from niso.data.evenly import evenly
from niso.data.pairs.split import Parts, fingerprint, split
from niso.data.pairs.table import Scaling, Table, extremes_of, range_of, scaling_of
from niso.data.pairs.transforms import make_transformations
from niso.data.pairs.variation import Variation
from niso.errors import InputError
from niso.geometry.action import Transformations, composes, powers
from niso.random import batch_rand, local_part

Part = Literal["train", "validation", "test"]
PARTS: tuple[Part, ...] = get_args(Part)
BATCH = 256
"""Observations that are given at once where nothing is trained."""


class PairData(ABC):
    """Observations of a table as pairs, in parts to train, validate and test on.

    What it can give, it says by `views` and `grouped`; methods are chosen by these.

    Args:
        table: the observations.
        parts: rows of each part.
        memory: gigabytes up to which observations are kept on the device.
        device: where they are used.

    Attributes:
        views: observations that an example has at most: 2 for pairs (ψ, Tψ), 3 for triplets.
        grouped: whether several examples can share one T.
        scaling: how values become numbers of order one; by the training part.
        extremes: that a few values make all others nearly equal by that, see `extremes_of`; empty where they do not.
        range: smallest and largest value of all observations, as the user has them.
        fingerprint: a word for the rows and their parts, see `split.fingerprint`.

    Raises:
        InputError: values are too large to be scaled.
    """

    views: int = 2
    grouped: bool = False
    paired: str
    """How pairs arise, in words."""

    def __init__(self, table: Table, parts: Parts, memory: float, device: torch.device) -> None:
        self.table, self.device = table, device
        self.rows: dict[Part, Int[Tensor, " rows"]] = {
            part: torch.from_numpy(np.ascontiguousarray(getattr(parts, part))) for part in PARTS
        }
        self.fingerprint = fingerprint(table, parts)
        self.scaling: Scaling = scaling_of(table, parts.train)
        self.extremes = extremes_of(table, parts.train, self.scaling)
        self.note = "; ".join(filter(None, [table.note, parts.note, self.extremes]))
        self.range = range_of(table, self.scaling)
        self._resident: dict[str, Tensor] = {}
        if sum(values.nbytes for values in table.views.values()) <= memory * 1e9:
            self._resident = {key: as_tensor(values).to(device) for key, values in table.views.items()}

    # What experiments call

    @abstractmethod
    def sample(self, size: int, views: int = 2, group: int = 1) -> tuple[Float[Tensor, "local ..."], ...]:
        """Random examples to train on: this process's part of a batch of `size`, drawn by torch's global generator.

        Args:
            views: 2 for pairs, 3 for triplets; at most `self.views`.
            group: so many consecutive examples share one T; more than 1 only where `self.grouped`.
        """

    @abstractmethod
    def pairs(
        self, part: Part, count: int, generator: torch.Generator
    ) -> Iterator[tuple[Float[Tensor, "batch ..."], ...]]:
        """Batches of at most `count` pairs of a part, each followed by another pair under the same T where any are."""

    def examples(self, part: Part, count: int) -> Iterator[tuple[Float[Tensor, "batch ..."], Int[Tensor, " batch"]]]:
        """Batches of at most `count` labelled observations as they are."""
        for rows in self.spread(part, count).split(BATCH):
            yield self.view("x", rows), self.labels(rows)

    @abstractmethod
    def transformed(
        self, part: Part, count: int, generator: torch.Generator
    ) -> Iterator[tuple[Float[Tensor, "batch ..."], Int[Tensor, " batch"]]]:
        """The same observations transformed; nothing where labels do not survive."""

    def sample_labelled(self, size: int) -> tuple[Float[Tensor, "local ..."], Int[Tensor, " local"]]:
        """Random labelled observations to train an augmented head on, transformed where labels survive that."""
        rows = self.draw(size)
        return self.view("x", rows), self.labels(rows)

    @property
    def most_in_group(self) -> int:
        """How many examples that share one T a group has by default, at most; 1 where none do."""
        return self.largest_group

    @property
    def largest_group(self) -> int:
        """The most examples to train on that can share one T; 1 where none do."""
        return 1 << 30 if self.grouped else 1

    # Rows

    @property
    def classes(self) -> int:
        """Number of classes; 0 where there are no labels."""
        return len(self.table.classes)

    def lacking(self, part: Part) -> tuple[str, ...]:
        """Names of the classes of which a part has no row."""
        if self.table.label is None:
            return ()
        there = set(self.table.label[self.rows[part].numpy()].tolist())
        return tuple(name for number, name in enumerate(self.table.classes) if number not in there)

    def count(self, part: Part) -> int:
        """Rows of a part."""
        return len(self.rows[part])

    def spread(self, part: Part, count: int) -> Int[Tensor, " rows"]:
        """At most `count` rows of a part, at even distances."""
        rows = self.rows[part]
        return rows[evenly(count, len(rows))]

    def vary(self, variation: Variation) -> None:
        """Vary pictures that are trained on before T is applied.

        Raises:
            InputError: T is applied already, or these are not pictures.
        """
        raise InputError(
            f"--variation is of pictures that niso transforms itself, not of {self.table.name}: set it to 0"
        )

    def labels(self, rows: Int[Tensor, " rows"]) -> Int[Tensor, " rows"]:
        """Classes of rows."""
        assert self.table.label is not None
        return self._sent(torch.from_numpy(self.table.label)[rows])

    def view(self, name: str, rows: Int[Tensor, " rows"]) -> Float[Tensor, "rows ..."]:
        """Observations of rows, scaled, on the device."""
        if name in self._resident:
            return self.scaled(self._resident[name][self._sent(rows)])
        order = rows.argsort()  # of a file that is not in memory
        values = as_tensor(self.table.views[name][rows[order].numpy()])
        return self.scaled(self._sent(values[order.argsort()]))

    def _sent(self, values: Tensor) -> Tensor:
        """On the device; the host does not wait for what that still has to do."""
        return values.to(self.device, non_blocking=self.device.type == "cuda")

    def scaled(self, values: Tensor) -> Float[Tensor, "rows ..."]:
        """Values as a user has them as numbers of order one."""
        return scaled(values, self.scaling)

    def draw(self, size: int) -> Int[Tensor, " local"]:
        """Random rows to train on: this process's part."""
        rows = self.rows["train"]
        return rows[local_part(torch.randint(len(rows), (size,)))]


def scaled(values: Tensor, scaling: Scaling) -> Tensor:
    """(values − offset) / scale in float32."""
    values = values.double() if values.dtype in _WIDE else values.float()
    offset, scale = _tensors(scaling, values.dtype, values.device)
    return ((values - offset) / scale).float()


def unscaled(values: Tensor, scaling: Scaling) -> Tensor:
    """Inverse of `scaled`."""
    offset, scale = _tensors(scaling, values.dtype, values.device)
    return values * scale + offset


@lru_cache
def _tensors(scaling: Scaling, dtype: torch.dtype, device: torch.device) -> tuple[Tensor, Tensor]:
    """Offset and scale on a device. They are copied there once: the host waits for such a copy."""
    with torch.inference_mode(False):  # whatever the first caller's mode
        offset, scale = (torch.tensor(part, dtype=dtype, device=device) for part in scaling)
    return offset, scale


def pair_data(
    table: Table, transform: str | None, skip: int, validation: float, test: float, memory: float, device: torch.device
) -> PairData:
    """The pairs that a table gives: recorded ones, frames of clips, or those that niso makes itself.

    Raises:
        InputError: the table has single observations and no transformation is named, or one is named in vain; or it
            cannot be cut into parts or scaled.
    """
    parts = split(table, validation, test)
    if "tx" in table.views or table.clip is not None:
        if transform is not None:
            what = "has tx" if "tx" in table.views else "holds clips"
            raise InputError(f"{table.name} {what}, which is paired as it is: leave --transform out")
        if table.clip is None:
            return RecordedPairs(table, parts, memory, device)
        return NeighbouringFrames(table, parts, memory, device, skip)
    if transform is None:
        raise InputError(
            f"{table.name} holds single observations: name a transformation that niso is to apply by --transform, or "
            "give pairs (arrays x and tx, folders a/ and b/, or a folder for the frames of each clip)"
        )
    action = make_transformations(transform, table.kind, table.shape)
    return TransformedObservations(table, parts, memory, device, action, transform)


class RecordedPairs(PairData):
    """Pairs or triplets as the user has them, perhaps with the number of the T that each has."""

    paired = "paired as given"

    def __init__(self, table: Table, parts: Parts, memory: float, device: torch.device) -> None:
        super().__init__(table, parts, memory, device)
        self.views = len(table.views)
        self._groups = {part: _Groups.of(rows, table.group) for part, rows in self.rows.items()}
        self.grouped = bool((self._groups["train"].sizes > 1).any())

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
    def most_in_group(self) -> int:
        """How many examples the middle one of the groups to train on has."""
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
        return ordered[start[chosen][:, None] + order.argsort(1)[:, :group]].flatten()

    def pairs(
        self, part: Part, count: int, generator: torch.Generator
    ) -> Iterator[tuple[Float[Tensor, "batch ..."], ...]]:
        drawn = self._with_partner(part, count)
        for batch in zip(*(part.split(BATCH) for part in drawn), strict=True):
            yield tuple(self.view(name, rows) for rows in batch for name in ("x", "tx"))

    def _with_partner(self, part: Part, count: int) -> tuple[Int[Tensor, " rows"], ...]:
        """Rows of a part, and for each another one of its group; those without are left out unless all are."""
        ordered, start, sizes = self._groups[part]
        if not (sizes > 1).any():
            return (self.spread(part, count),)
        start, sizes = start.repeat_interleave(sizes), sizes.repeat_interleave(sizes)
        before = start + (torch.arange(len(ordered)) - start - 1) % sizes
        rows, others = ordered[sizes > 1], ordered[before][sizes > 1]
        chosen = evenly(count, len(rows))
        return rows[chosen], others[chosen]

    def transformed(
        self, part: Part, count: int, generator: torch.Generator
    ) -> Iterator[tuple[Float[Tensor, "batch ..."], Int[Tensor, " batch"]]]:
        for rows in self.spread(part, count).split(BATCH):
            yield self.view("tx", rows), self.labels(rows)


class TransformedObservations(PairData):
    """Single observations, and what niso makes of them by transformations that it draws."""

    grouped = True

    def __init__(
        self, table: Table, parts: Parts, memory: float, device: torch.device, action: Transformations, name: str
    ) -> None:
        super().__init__(table, parts, memory, device)
        self.action, self.paired = action, f"paired by {name}"
        self._variation: Variation | None = None
        self.views = 3 if composes(action) else 2

    def vary(self, variation: Variation) -> None:
        if self.table.kind != "images":
            super().vary(variation)
        self._variation = variation

    def sample(self, size: int, views: int = 2, group: int = 1) -> tuple[Float[Tensor, "local ..."], ...]:
        x = self.view("x", self.draw(size))
        if self._variation is not None:
            x = self._variation.draw(x, size)
        t = local_part(self.action.sample(size // group)).repeat_interleave(group, dim=0)
        return x, *(self.action.act(x, power) for power in powers(self.action, t, views - 1))

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
        rows = self.spread(part, count)
        drawn = self.action.sample(len(rows), generator)
        for here, t in zip(rows.split(BATCH), drawn.split(BATCH), strict=True):
            yield self.action.act(self.view("x", here), t), self.labels(here)


class NeighbouringFrames(PairData):
    """Pairs of frames of one clip, at most `skip` frames apart, in either order."""

    def __init__(self, table: Table, parts: Parts, memory: float, device: torch.device, skip: int) -> None:
        super().__init__(table, parts, memory, device)
        assert table.clip is not None
        clips = len(np.unique(table.clip))
        self.skip, self.paired = skip, f"frames of {clips} clip{'s' * (clips > 1)}, paired at most {skip} apart"
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
                use = {"train": "to train on", "validation": "to validate on", "test": "held out"}[part]
                problem = f"{table.name}: no two of the frames {use} can be paired"
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


def as_tensor(values: np.ndarray) -> Tensor:
    """An array of any real type as a tensor; types that torch lacks, and half precision, as floats that hold them.

    Raises:
        TypeError: the values are no real numbers.
        ValueError: some are masked.
    """
    if np.ma.is_masked(values):
        raise ValueError("some values are masked: fill them")
    if values.dtype.kind not in "buif":
        raise TypeError(f"values must be real numbers, not of type {values.dtype}")
    native = values.dtype.newbyteorder("=")
    values = np.ascontiguousarray(values, native)
    forward = min(values.strides) >= 0  # along an axis of one value, NumPy calls any stride contiguous
    kept = values.dtype in _KEPT and values.flags.writeable and forward
    return torch.from_numpy(values if kept else values.astype(_kept(native), order="C"))


_KEPT = (np.uint8, np.int16, np.int32, np.float32, np.float64)
_WIDE = (torch.int32, torch.int64, torch.float64)
"""Types whose values have more digits than float32 holds."""


def _kept(dtype: np.dtype) -> np.dtype:
    if dtype in _KEPT:
        return dtype
    return np.dtype(np.float64 if dtype.itemsize > 4 or dtype == np.uint32 else np.float32)
