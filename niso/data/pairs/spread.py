"""About what scaled observations vary, and by how much: other units that are inside of the range are told by it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

RARE = 0.01
"""Share of the observations that are trained on whose mean is lower, or higher, or that vary less."""
NARROW = 0.8
"""Of the deviation within these, that below which others are in other units."""
MOST = 0.9
"""Share of the others that have to lie so: a class, or any other part of the data, does not."""


class Spread(NamedTuple):
    """Of scaled observations of one view, a number for each channel that has a scale of its own.

    Attributes:
        mean, deviation: of all values.
        low, high: of the means of all observations but `RARE` ones.
        within: least deviation within an observation, but for `RARE` ones.
    """

    mean: tuple[float, ...]
    deviation: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]
    within: tuple[float, ...]


def spread_of(x: Float[Tensor, "rows channels ..."], alike: bool) -> Spread:
    """Spread of observations whose channels have one scale (`alike`), or one each."""
    values = _by_scale(x, alike)
    means, deviations = values.mean(2), values.std(2, correction=0)
    low, within = (part.quantile(RARE, 0, interpolation="lower") for part in (means, deviations))
    high = means.quantile(1 - RARE, 0, interpolation="higher")
    numbers = values.mean((0, 2)), values.std((0, 2), correction=0), low, high, within
    return Spread(*(tuple(float(f"{number:.6g}") for number in part.tolist()) for part in numbers))


def unlike(x: Float[Tensor, "rows channels ..."], trained: Sequence[Spread]) -> int | None:
    """The first channel, of those with a scale, that is unlike the one of every view that is trained on; None if none.

    Nearly all observations then have a mean beyond those of all but `RARE` observations that are trained on, on one
    side, or vary by less than all but `RARE` do.
    """
    values = _by_scale(x, len(trained[0].mean) == 1)
    means, deviations = values.mean(2), values.std(2, correction=0)
    found = torch.ones(values.shape[1], dtype=torch.bool, device=x.device)
    for view in trained:
        _, deviation, low, high, within = (torch.tensor(part, dtype=values.dtype, device=x.device) for part in view)
        shares = [part.double().mean(0) for part in (means < low, means > high, deviations < NARROW * within)]
        off = ((shares[0] >= MOST) | (shares[1] >= MOST)) & (deviation > 0)
        found &= off | (shares[2] >= MOST)
    return int(found.nonzero()[0]) if found.any() else None


def _by_scale(x: Float[Tensor, "rows channels ..."], alike: bool) -> Float[Tensor, "rows scales numbers"]:
    """The values that share a scale, together, in double precision."""
    return (x.flatten(1)[:, None] if alike else x.flatten(2)).double()
