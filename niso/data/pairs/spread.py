"""About what scaled observations vary, and by how much: other units that are inside of the range are told by it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

NARROW = 0.25
"""Share of the variation within observations that are trained on, below which that of others is in other units."""
MOST = 0.9
"""Share of the observations that have to lie so: of those like the ones trained on half do at most."""


class Spread(NamedTuple):
    """Of scaled observations of one view, a number for each channel that has a scale of its own.

    Attributes:
        mean, deviation: of all values.
        within: middle one of the deviations within an observation.
    """

    mean: tuple[float, ...]
    deviation: tuple[float, ...]
    within: tuple[float, ...]


def spread_of(x: Float[Tensor, "rows channels ..."], alike: bool) -> Spread:
    """Spread of observations whose channels have one scale (`alike`), or one each."""
    values = _by_scale(x, alike)
    numbers = values.mean((0, 2)), values.std((0, 2), correction=0), values.std(2, correction=0).median(0).values
    return Spread(*(tuple(float(f"{number:.6g}") for number in part.tolist()) for part in numbers))


def unlike(x: Float[Tensor, "rows channels ..."], trained: Sequence[Spread]) -> int | None:
    """The first channel, of those with a scale, that is unlike the one of every view that is trained on; None if none.

    Nearly all observations then vary by less than `NARROW` of what is usual, or have a mean that is farther than one
    deviation from the usual one, all on one side: at most half of those trained on do.
    """
    values = _by_scale(x, len(trained[0].mean) == 1)
    mean, within = values.mean(2), values.std(2, correction=0)
    least, most = mean.quantile(1 - MOST, 0, interpolation="lower"), mean.quantile(MOST, 0, interpolation="higher")
    widest = within.quantile(MOST, 0, interpolation="higher")
    found = torch.ones(values.shape[1], dtype=torch.bool, device=x.device)
    for view in trained:
        centre, deviation, usual = (torch.tensor(part, dtype=values.dtype, device=x.device) for part in view)
        off = ((least > centre + deviation) | (most < centre - deviation)) & (deviation > 0)
        found &= off | (widest < NARROW * usual)
    return int(found.nonzero()[0]) if found.any() else None


def _by_scale(x: Float[Tensor, "rows channels ..."], alike: bool) -> Float[Tensor, "rows scales numbers"]:
    """The values that share a scale, together, in double precision."""
    return (x.flatten(1)[:, None] if alike else x.flatten(2)).double()
