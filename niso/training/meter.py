"""Running means of the terms of a loss."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from niso.training.log import Log


class Meter:
    """Means of loss terms since the last flush. Sums stay on their device, so that adding does not wait for it.

    Attributes:
        count: how many were added since then.
    """

    def __init__(self) -> None:
        self._sums: dict[str, Tensor] = {}
        self.count = 0

    def add(self, terms: Any) -> None:
        """Add the terms of a step, or of a part of its batch, as an objective gives them: perhaps the user's own.

        Raises:
            TypeError: they are no real scalar tensors by name, "loss" among them, or one is named as a column of
                log.csv.
        """
        if not (isinstance(terms, Mapping) and "loss" in terms):
            raise TypeError(f'an objective gives a mapping with "loss" in it, not {_words(terms)}')
        for name, term in terms.items():
            if not (isinstance(term, Tensor) and term.ndim == 0):
                raise TypeError(f"an objective gives a scalar tensor for each term, not {_words(term)} for {name!r}")
            if term.is_complex():
                raise TypeError(f"an objective gives a real number for each term, not {term.dtype} for {name!r}")
            if name in Log.FIXED:
                raise TypeError(f"log.csv has a column {name!r} of its own: give that term of the loss another name")
            value = term.detach()
            self._sums[name] = self._sums[name].to(value) + value if name in self._sums else value.clone()
        self.count += 1

    def go_on(self, count: int, sums: dict[str, float]) -> None:
        """Take up the sums of so many steps before; they get the precision and the device of what is added."""
        self.count, self._sums = count, {n: torch.tensor(value, dtype=torch.float64) for n, value in sums.items()}

    def check_finite(self) -> None:
        """Check all values added since the last flush.

        Raises:
            FloatingPointError: one is not finite; names its term, the total "loss" only where it is no other.
        """
        bad = [name for name, total in self.sums().items() if not math.isfinite(total)]
        if bad:
            name = min(bad, key=lambda name: name == "loss")
            raise FloatingPointError(f"the term {name!r} of the loss is not finite")

    def flush(self) -> dict[str, float]:
        """Means over the steps added since the last call."""
        means = {name: total / self.count for name, total in self.sums().items()}
        self._sums, self.count = {}, 0
        return means

    def sums(self) -> dict[str, float]:
        """All sums, in one transfer: the host waits for a GPU once. Terms on the CPU are taken there."""
        if not self._sums:
            return {}
        device = self._sums["loss"].device
        sums = torch.stack([total.to(device, non_blocking=True) for total in self._sums.values()])
        return dict(zip(self._sums, sums.tolist(), strict=True))


def _words(value: object) -> str:
    """What something is, briefly."""
    if isinstance(value, Mapping):
        return f"one of {', '.join(map(str, value)) or 'nothing'}"
    return f"a tensor {tuple(value.shape)}" if isinstance(value, Tensor) else f"{value!r:.60}"
