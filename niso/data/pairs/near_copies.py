"""Held-out observations that nearly equal one trained on, as copies do that differ by noise or by compression."""

from __future__ import annotations

from collections.abc import Callable

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from niso.data.evenly import evenly

NEAR = 0.02
"""Share of the typical distance of two observations, in averages, below which they may be copies."""
NOISE = 0.2
"""Share of the typical difference of two observations at a point, and of how each varies over its points, below which
they may be: blank ones are no copies of each other."""
WIDE = 4
"""Up to so many times the distance of copies hardly any other lies: there are many where observations differ by
degrees, as those of a slow motion."""
FEW = 2
"""Pairs of near ones for each that is so much wider, at least."""
SURE = 4
"""Pairs of near ones that there are beyond that, so that it is not by chance."""
_HALVINGS = 40
"""Distances that are tried, each half of the one before."""
_TRAINED, _HELD_OUT = 20_000, 1_000
"""Observations that are compared, at most."""
_VALUES = 100_000_000
"""Values of these, at most: they are read in a few seconds."""
_AVERAGES = 64
"""Numbers that stand for an observation, at most."""
_CHANNELS = 16
_TOGETHER = 256
_POOL: dict[int, Callable[..., Tensor]] = {
    1: nn.functional.adaptive_avg_pool1d,
    2: nn.functional.adaptive_avg_pool2d,
    3: nn.functional.adaptive_avg_pool3d,
}


def near_copies(
    view: Callable[[Int[Tensor, " rows"]], Float[Tensor, "rows channels ..."]],
    trained: Int[Tensor, " trained"],
    held_out: Int[Tensor, " held_out"],
) -> tuple[int, int]:
    """How many held-out observations are near copies of one that is trained on, and how many were compared.

    Equal ones do not count.

    Args:
        view: scaled observations of rows, channels first.
        trained, held_out: rows, of which at most so many are compared as take a few seconds.
    """
    size = view(trained[:1]).numel()
    room, together = max(_VALUES // size, _TOGETHER), max(1, min(_TOGETHER, _VALUES // (8 * size)))
    trained = trained[evenly(min(_TRAINED, room), len(trained))]
    held_out = held_out[evenly(min(_HELD_OUT, room // 10), len(held_out))]
    theirs, ours = (torch.cat([averages(view(part)) for part in rows.split(together)]) for rows in (trained, held_out))
    most, distance, nearest = close(ours, theirs)
    copied = distance < most
    rows, others = held_out[copied.cpu()], trained[nearest[copied].cpu()]
    random = trained[evenly(len(rows), len(trained))]
    if not len(rows) or len(random) < len(rows):
        return 0, len(held_out)
    alike = torch.cat(
        [
            _alike(view(row), view(other), view(any_one))
            for row, other, any_one in zip(*(part.split(together) for part in (rows, others, random)), strict=True)
        ]
    )
    copied[copied.clone()] = alike
    farthest = reach(ours[copied], theirs, most) if copied.any() else 0.0
    return int((copied & (distance <= farthest)).sum()), len(held_out)


def pairs_of_copies(
    pictures: Float[Tensor, "pictures channels height width"], source: Int[Tensor, " pictures"]
) -> Int[Tensor, "pairs 2"]:
    """Pictures of different sources that may be near copies of each other."""
    small = averages(pictures)
    distance, varies = torch.cdist(small, small), _size(_varying(pictures))
    apart = source[:, None] != source
    if not apart.any():
        return torch.zeros(0, 2, dtype=torch.int64)
    close = (distance < NEAR * distance[apart].median()) & apart
    first, second = close.triu(1).nonzero().T
    alike = _size(pictures[first] - pictures[second]) < NOISE * torch.minimum(varies[first], varies[second])
    return torch.stack([first, second], 1)[alike]


def averages(x: Float[Tensor, "rows channels ..."]) -> Float[Tensor, "rows numbers"]:
    """Means over parts of each observation, and over neighbouring channels where there are many."""
    space = x.shape[2:]
    channels = min(x.shape[1], _CHANNELS)
    side = int((_AVERAGES / channels) ** (1 / len(space)) + 1e-9)
    means = _POOL[len(space)](x.double(), [min(side, length) for length in space]).flatten(2)
    return nn.functional.adaptive_avg_pool1d(means.mT, channels).flatten(1)


def close(
    ours: Float[Tensor, "held_out numbers"], theirs: Float[Tensor, "trained numbers"]
) -> tuple[float, Float[Tensor, " held_out"], Int[Tensor, " held_out"]]:
    """The distance up to which two may be copies; and how far the nearest of theirs is from each of ours, and which."""
    typical = torch.cdist(ours, theirs[evenly(_TOGETHER, len(theirs))]).median()
    found = [torch.cdist(part, theirs).min(1) for part in ours.split(_TOGETHER)]
    distance, nearest = (torch.cat(parts) for parts in zip(*found, strict=True))
    return NEAR * typical.item(), distance, nearest


def reach(ours: Float[Tensor, "held_out numbers"], theirs: Float[Tensor, "trained numbers"], most: float) -> float:
    """The largest distance, of at most `most`, up to which theirs are near copies of ours: hardly any of them are some
    times farther. 0 where there is none."""
    parts = [torch.cdist(part, theirs).flatten() for part in ours.split(_TOGETHER)]
    distance = torch.cat([part[part <= WIDE * most] for part in parts]).sort().values
    limits = most / 2.0 ** torch.arange(_HALVINGS, dtype=distance.dtype, device=distance.device)
    near, within = (torch.searchsorted(distance, limit, right=True) for limit in (limits, WIDE * limits))
    fitting = limits[near - FEW * (within - near) >= SURE]
    return fitting[0].item() if len(fitting) else 0.0


def _alike(
    x: Float[Tensor, "rows channels ..."],
    other: Float[Tensor, "rows channels ..."],
    any_one: Float[Tensor, "rows channels ..."],
) -> Bool[Tensor, " rows"]:
    """Whether observations differ, but by far less than two do typically, and than each varies over its points."""
    differ, typical = _size(x - other), _size(x - any_one).median()
    return (differ > 0) & (differ < NOISE * torch.minimum(_size(_varying(x)), typical))


def _size(values: Float[Tensor, "rows channels ..."]) -> Float[Tensor, " rows"]:
    """Root of the mean square of each."""
    return values.double().flatten(1).square().mean(1).sqrt()


def _varying(x: Float[Tensor, "rows channels ..."]) -> Float[Tensor, "rows channels ..."]:
    """Less the mean of each channel over its points."""
    return x - x.mean(tuple(range(2, x.ndim)), keepdim=True)
