"""What an experiment knows of the user's data: observations as pairs, in parts."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from functools import cached_property

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from niso.collective import local_part
from niso.data.evenly import evenly
from niso.data.pairs.doubts import extremes_of, faint_ones, mismatched, other_units
from niso.data.pairs.near_copies import near_copies
from niso.data.pairs.outliers import outliers
from niso.data.pairs.scaling import (
    BYTES,
    Scaling,
    bounds_of,
    ranges_of,
    scaled,
    scaling_of,
    units_of,
)
from niso.data.pairs.split import PARTS, Part, Parts, fingerprint
from niso.data.pairs.spread import Spread, spread_of
from niso.data.pairs.table import Table
from niso.data.pairs.tensors import as_tensor, bytes_of
from niso.data.pairs.variation import Variation
from niso.errors import InputError
from niso.random import EVALUATION_SEED, distinct, step_generator

_COPIED = 0.1
"""Share of near copies among held-out observations, above which a line says so."""
SPREAD = 1_000
"""Observations by which their spread is known."""
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
        doubts: what makes metrics doubtful, a sentence by its subject, e.g. values so large that all others are nearly
            equal by that scaling, see `extremes_of`; empty where nothing does.
        ranges: smallest and largest values of all observations, as the user has them, see `ranges_of`.
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
        bounds = bounds_of(table, self.scaling)
        far = outliers(table.views, bounds)
        extremes = extremes_of(table, parts.train, self.scaling)
        told = extremes or far.text  # which make the scale so large that others are faint
        doubts = {
            "extreme values": extremes,
            "a value far off": far.text,
            "faint observations": "" if told else faint_ones(table, bounds, parts.train, self.scaling),
            "few observations": parts.repeated,
            "pairs": mismatched(table, parts.train),
            "units": other_units(table, np.setdiff1d(parts.train, far.rows)),
        }
        self.ranges = ranges_of(bounds)
        self._resident: dict[str, Tensor] = {}
        if sum(map(bytes_of, table.views.values())) <= memory * 1e9:
            self._resident = {key: as_tensor(values).to(device) for key, values in table.views.items()}
        doubts["near copies"] = self._copied()
        self.doubts = {subject: text for subject, text in doubts.items() if text}
        notes = table.note, parts.note, units_of(table, self.scaling), *self.doubts.values()
        self.note = "; ".join(filter(None, notes))

    def _copied(self) -> str:
        """That many held-out observations are near copies of some that are trained on; empty where they are not.
        Frames are near copies of their neighbours."""
        if self.table.clip is not None:
            return ""

        copied, compared = near_copies(
            lambda rows: self._channels_first(self.view("x", rows)), self.rows["train"], self.rows["test"]
        )
        if copied <= _COPIED * compared:
            return ""
        remedy = "give those that belong together one number in source"
        return (
            f"{copied:,} of {compared:,} held-out observations nearly equal one that is trained on, so that metrics "
            f"flatter: {'keep one of each, or save arrays and ' if self.table.files else ''}{remedy}"
        )

    def _channels_first(self, values: Float[Tensor, "rows ..."]) -> Float[Tensor, "rows channels ..."]:
        return values if self.table.channels_first else values.movedim(-1, 1)

    # What experiments call

    @cached_property
    def spreads(self) -> list[Spread]:
        """Spread of each view that is trained on, also of one that niso makes; none of pictures in bytes."""
        if self.scaling == BYTES:
            return []
        rows = self.chosen_evenly("train", SPREAD)
        views = [self.view(name, rows) for name in self.table.views]
        if len(views) == 1:
            there = [self.device] if self.device.type == "cuda" else []
            with torch.random.fork_rng(there):  # an action may draw from torch's own generators
                made = list(self.pairs("train", BATCH, step_generator(EVALUATION_SEED, 0, "spread")))
            views.append(torch.cat([tx for batch in made for tx in batch[1::2]]))
        return [spread_of(self._channels_first(view), len(self.scaling.scale) == 1) for view in views]

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
        """Batches of at most `count` pairs of a part: first those that have another pair under the same T, each
        followed by that, and then those that have none. Half of `count` or more are of the first, if there are so
        many, whatever their share is."""

    def examples(self, part: Part, count: int) -> Iterator[tuple[Float[Tensor, "batch ..."], Int[Tensor, " batch"]]]:
        """Batches of at most `count` labelled observations as they are."""
        for rows in self.chosen_evenly(part, count).split(BATCH):
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
    def usual_group(self) -> int:
        """Examples in a group of usual size, than which none is larger by default; 1 where none share a T."""
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
        return tuple(str(name) for number, name in enumerate(self.table.classes) if number not in there)

    def count(self, part: Part) -> int:
        """Rows of a part."""
        return len(self.rows[part])

    def chosen_evenly(self, part: Part, count: int) -> Int[Tensor, " rows"]:
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
        return scaled(values, self.scaling, self.table.channels_first)

    def draw(self, size: int, group: int = 1) -> Int[Tensor, " local"]:
        """Random rows to train on, each once in `group` consecutive ones if there are so many: this process's part."""
        rows = self.rows["train"]
        drawn = distinct(len(rows), size, group) if 1 < group <= len(rows) else torch.randint(len(rows), (size,))
        return rows[local_part(drawn)]
