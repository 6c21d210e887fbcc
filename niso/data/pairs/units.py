"""The units of observations that a model was trained on: how they become what networks take, and which are refused."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from niso.data.evenly import evenly
from niso.data.pairs.scaling import (
    BYTES,
    Scaling,
    all_but_channels,
    scaled,
    step_from,
    unscaled,
)
from niso.data.pairs.spread import Spread, spread_of, unlike
from niso.data.pairs.table import CHANNELS_FIRST
from niso.data.pairs.tensors import as_tensor

OUTSIDE = 0.5
"""How far observations may lie outside of the range of the data, as a share of its width."""
RINGING = 0.1
"""The same of pictures with values 0 … 255, as interpolation leaves them."""
NARROW = 0.01
"""Share of this width below which observations may be in larger units: metres, not millimetres."""
ROUNDED = 1e-5
"""Width of a range, as a share of its largest value, of values that may differ by rounding alone."""
ROUNDING = 1e-6
"""Relative difference of a constant of other data that may be rounding: of float32, after a few operations."""
LOST = 1e-3
"""Share of their deviation, see `Units.rounded_away`, above which values are not held by float32."""
RARE = 0.01
"""Share of the values of a channel, of several, that may lie farther outside, as spikes do; one may in any case."""
LARGER = 0.02
"""Share of the largest value of a channel below which all of several observations may be in larger units: radians,
not degrees."""
EXTREME = 1e15
"""Of larger scaled values, and of those below its inverse, single precision does not hold sums of squares."""
PIXELS = (0.0, 255.0)
"""A range in which floats −1 … 1 are taken for pixels in other units."""
SEVERAL = 8
"""Observations from which on their mean, and that all are blank, says something."""
COMPARED = 1_000
"""Observations whose spread is looked at, at most."""
LOPSIDED = 0.25
"""Distance of the mean of the data from that of its negatives, as a share of the range, from which on they differ."""
NEGATIVE = 1 / 3
"""Ratio of the distances of a mean to that of negatives, and to that of the data, below which it is of negatives."""


@dataclass(frozen=True)
class Units:
    """Of observations (n, C, …) where channels are first, else (n, …, C).

    Attributes:
        scaling: by which observations become what networks take.
        channels_first: whether the axis of channels is the second, or the last.
        hidden: whether NaN are pixels that are not seen.
        clip: scaled values are clipped to ± this; None where they are not.
        range: smallest and largest value of the data; None where that is not known, or units change nothing.
        ranges: the same of each channel; empty where channels have one unit, or that is not known.
        mean: of each channel of the data; empty where that is not known, as of runs of before.
        spread: of each view of the scaled data; empty where that is not known, as of runs of before, or they are
            pictures with values 0 … 255.
    """

    scaling: Scaling
    channels_first: bool
    hidden: bool = False
    clip: float | None = None
    range: tuple[float, float] | None = None
    ranges: tuple[tuple[float, float], ...] = ()
    mean: tuple[float, ...] = ()
    spread: tuple[Spread, ...] = ()

    @classmethod
    def of(cls, data: Mapping[str, Any], hidden: bool) -> Units:
        """Those that the facts of a run tell.

        Args:
            data: what the facts say of the data.

        Raises:
            KeyError, TypeError, ValueError: they do not say it, or numbers that nothing can be scaled by.
        """
        channels_first = data["kind"] in CHANNELS_FIRST
        channels = int(data["shape"][0 if channels_first else -1])
        offset, scale = (tuple(float(value) for value in data["scaling"][part]) for part in Scaling._fields)
        if len(offset) != len(scale) or len(scale) not in (1, channels):
            raise ValueError(f"scaling has {len(offset)} offsets and {len(scale)} scales for {channels} channels")
        if not all(map(math.isfinite, (*offset, *scale))) or min(scale) <= 0:
            raise ValueError(f"its observations are scaled by {scale}, less {offset}")
        clip = None if data.get("clip") is None else float(data["clip"])
        if clip is not None and not clip > 0:
            raise ValueError(f"its scaled observations are clipped at {clip}")
        whole = _bounds([data["range"]]) if "range" in data else ()
        ranges = _bounds(list(zip(*data["ranges"], strict=True))) if "ranges" in data else ()
        if ranges and len(ranges) != len(scale):
            raise ValueError(f"its observations have {len(scale)} scales and {len(ranges)} ranges")
        mean = tuple(float(value) for value in data.get("mean", ()))
        if len(mean) not in (0, channels) or not all(map(math.isfinite, mean)):
            raise ValueError(f"its observations have {channels} channels of means {mean}")
        spread = tuple(
            Spread(*(tuple(map(float, view[part])) for part in Spread._fields)) for view in data.get("spread", ())
        )
        if not all(len(part) == len(scale) and all(map(math.isfinite, part)) for view in spread for part in view):
            raise ValueError(f"its observations have {len(scale)} scales and the spread {spread}")
        found = whole[0] if whole else None
        return cls(Scaling(offset, scale), channels_first, hidden, clip, found, ranges, mean, spread)

    @property
    def bytes(self) -> bool:
        """Whether observations are pictures with values 0 … 255."""
        return self.scaling == BYTES

    @property
    def constant(self) -> tuple[bool, ...]:
        """Whether the channels of each scale had one number in training, but for rounding. Its scale is then 1, or
        `step_from` it, which one that varies may have, too: the range tells them apart, where it is known."""
        whole = self.range if self.range and len(self.scaling.scale) == 1 else (0.0, 0.0)
        ranges = self.ranges or (whole,) * len(self.scaling.scale)
        return tuple(
            scale in (1.0, step_from(least)) and most - least <= ROUNDED * max(-least, most)
            for scale, (least, most) in zip(self.scaling.scale, ranges, strict=True)
        )

    def rounded_away(self, rounding: float = torch.finfo(torch.float32).eps) -> float:
        """Largest share of a channel's deviation by which numbers with this relative rounding, that of float32 by
        default, round its values: from 1 on, nearly all are one number. Constant channels are left out."""
        channels = zip(*self.scaling, self.constant, strict=True)
        return max((abs(offset) * rounding / scale for offset, scale, one in channels if not one), default=0.0)

    def scaled(self, observed: Tensor) -> Tensor:
        """Observations of order one."""
        values = scaled(observed, self.scaling, self.channels_first)
        return values if self.clip is None else values.clamp(-self.clip, self.clip)

    def unscaled(self, values: Tensor) -> Tensor:
        """Observations in their units: the inverse of `scaled`, but for the clip; in float64 where float32 would not
        hold how values vary: days since −4712."""
        values = values.double() if self.rounded_away() > LOST else values
        return unscaled(values, self.scaling, self.channels_first)

    def check(self, observed: np.ndarray | Tensor, given: np.ndarray | Tensor) -> None:
        """Check that observations are in these units, and given in a type that holds how they vary.

        All but `RARE` values have to lie within the range, or outside of it by half of its width at most; pixels by a
        tenth, and all of them by half. A warning names the others, where channels have one range. So has the mean of a
        channel with a range of its own. A constant channel has to be that constant somewhere, and a warning says where
        it is not. Where no range is known, values may not be `EXTREME`. A warning names values that fill hardly any of
        the range, or of that of a channel, negatives, blank observations, and others that vary by far less, or about
        another mean.

        Args:
            observed: with an axis of channels.
            given: the same as they were given, perhaps in another type.

        Raises:
            ValueError: they are not, or are not finite.
        """
        seen = observed[observed == observed] if self.hidden else observed  # NaN differs from itself
        if not math.prod(seen.shape):
            return
        rounding = _rounding(given)
        if self.bytes and str(given.dtype).endswith("bool"):
            raise ValueError("a mask is no picture with values 0 … 255, as those trained on")
        asked = self._check_range(seen, rounding > 0)
        if self.ranges:
            asked |= self._check_channels(observed, rounding, len(observed) >= SEVERAL and not asked)
        if self.rounded_away(rounding) > 1:
            kind = str(given.dtype).removeprefix("torch.")
            raise ValueError(f"{kind} does not hold how the observations vary: give float64, as those trained on")
        if len(observed) >= SEVERAL and self.range is not None and self.range[0] < self.range[1]:
            asked |= self._look_at(observed)
            if self.spread and not asked:
                self._compare(observed)

    def _check_range(self, seen: np.ndarray | Tensor, floats: bool) -> bool:
        """Whether a warning asks for units."""
        low, high = float(seen.min()), float(seen.max())
        if not (math.isfinite(low) and math.isfinite(high)):
            raise ValueError("observations hold NaN or infinite values: repair or remove them")
        largest = max(-low, high)
        if self.range is None and largest and not 1 / EXTREME <= largest / max(self.scaling.scale) <= EXTREME:
            raise ValueError(f"observations reach {largest:.0e}: bring them to units in which they are of order 1")
        least, most = self.range or (0.0, 0.0)
        if least == most:
            return False
        pixels = self.range == PIXELS
        small = floats and pixels and -1 <= low and high <= 1 and (low, high) != (0, 0)
        far, room = ((most - least) * share for share in (OUTSIDE, RINGING if pixels else OUTSIDE))
        beyond = low < least - room or high > most + room
        wrong = small or (pixels and (low < least - far or high > most + far))
        if wrong or (beyond and _share_beyond(seen, least - room, most + room) > RARE):
            raise ValueError(
                f"observations lie between {low:g} and {high:g}, but those trained on between {least:g} and {most:g}: "
                "bring them to the same units"
            )
        asked = beyond or (0 < high - low < NARROW * (most - least) and not pixels)
        if asked:  # a few values beyond may be those of heavy tails, or stand for missing ones
            warnings.warn(
                f"observations lie between {low:g} and {high:g}, and those trained on between {least:g} and {most:g}: "
                "are they in the same units?",
                stacklevel=2,
            )
        return asked

    def _check_channels(self, observed: np.ndarray | Tensor, rounding: float, ask: bool) -> bool:
        """For a channel may be far smaller than another, or constant. Warn of small values if `ask`; whether a warning
        did."""
        asked = False
        axes = all_but_channels(observed.ndim, self.channels_first)
        found = zip(_means(observed, axes), *_extremes(observed, axes), strict=True)
        known = zip(self.ranges, self.constant, strict=True)
        for channel, ((mean, low, high), ((least, most), constant)) in enumerate(zip(found, known, strict=True)):
            where, room = f"channel {channel} of the observations", (most - least) * OUTSIDE
            if constant:  # whose scale is 1 or more, so that rounding of less changes nothing
                room = max(room, max(ROUNDING, rounding) * max(1.0, -least, most))
                self._check_constant(where, (low, high), (least - room, most + room), least)
                continue
            trained = f"those trained on lie between {least:g} and {most:g} there"
            if not least - room <= mean <= most + room:
                raise ValueError(f"{where} has a mean of {mean:g}, but {trained}: bring it to the same units")
            if low < least - room or high > most + room:
                values = observed[:, channel] if self.channels_first else observed[..., channel]
                if _share_beyond(values, least - room, most + room) > RARE:
                    raise ValueError(
                        f"{where} lies between {low:g} and {high:g}, but {trained}: bring it to the same units"
                    )
            if ask and 0 < max(-low, high) < LARGER * max(-least, most):
                asked = True
                warnings.warn(
                    f"{where} lies between {low:g} and {high:g}, and {trained}: is it in the same units?", stacklevel=3
                )
        return asked

    @staticmethod
    def _check_constant(where: str, found: tuple[float, float], allowed: tuple[float, float], constant: float) -> None:
        """Other units change a constant everywhere; where it changes here and there, the model may still be of use."""
        (low, high), (lower, upper) = found, allowed
        if high < lower or upper < low:
            raise ValueError(
                f"{where} lies between {low:g} and {high:g}, but is {constant:g} in all those trained on: bring it to "
                f"the same units, or give {constant:g}"
            )
        if low < lower or upper < high:
            warnings.warn(
                f"{where} lies between {low:g} and {high:g}, but is {constant:g} in all those trained on: the model "
                "has not learned what else means",
                stacklevel=4,
            )

    def _look_at(self, observed: np.ndarray | Tensor) -> bool:
        """Warn of observations that are blank, or the negatives of those trained on: black on white, not white on
        black. Whether a warning did."""
        if _blank(observed, self.channels_first):
            warnings.warn("every observation is the same number all over: is this what is to be given?", stacklevel=3)
            return True
        ranges = np.array(self.ranges if len(self.ranges) == len(self.mean) else [self.range] * len(self.mean))
        varying = ranges[:, 0] < ranges[:, 1] if self.mean else np.zeros(0, bool)
        if not varying.any():
            return False
        low, high = ranges[varying].T
        means = _means(observed, all_but_channels(observed.ndim, self.channels_first), self.hidden)
        given, trained = np.array(means)[varying], np.array(self.mean)[varying]
        mirrored = low + high - trained
        pairs = (mirrored, trained), (given, mirrored), (given, trained)
        apart, near, far = (float(np.mean(abs(one - other) / (high - low))) for one, other in pairs)
        negative = apart >= LOPSIDED and near < NEGATIVE * far
        if negative:
            inverted = "invert them" if self.ranges else f"give {low[0] + high[0]:g} − x"
            warnings.warn(
                f"observations look like negatives of those trained on (their mean is {given.mean():.3g}, and there "
                f"{trained.mean():.3g}): if they are, {inverted}",
                stacklevel=3,
            )
        return negative

    def _compare(self, observed: np.ndarray | Tensor) -> None:
        """Warn where observations vary by far less than those trained on, or about another mean."""
        rows = evenly(COMPARED, len(observed))
        some = observed[rows] if isinstance(observed, Tensor) else as_tensor(observed[rows.numpy()])
        values = self.scaled(some)
        values = values if self.channels_first else values.movedim(-1, 1)
        channel = unlike(values, self.spread)
        if channel is None or self.constant[channel]:
            return
        several, offset, scale = len(self.scaling.scale) > 1, self.scaling.offset[channel], self.scaling.scale[channel]
        given, trained = (
            f"a mean of {offset + scale * view.mean[channel]:.3g} and a deviation of "
            f"{scale * view.deviation[channel]:.3g}"
            for view in (spread_of(values, not several), self.spread[0])
        )
        where, those, ask = "observations have", "those trained on", "are they"
        if several:
            where, those, ask = f"channel {channel} of the observations has", f"that of {those}", "is it"
        warnings.warn(
            f"{where} {given}, and {those} {trained}: {ask} in the same units?",
            stacklevel=3,
        )


def _share_beyond(values: np.ndarray | Tensor, low: float, high: float) -> float:
    """Share of the values that are lower or higher; of one alone, 0."""
    lower, upper = np.float64(low), np.float64(high)  # half precision may not hold them
    beyond = int(((values < lower) | (values > upper)).sum())
    return beyond / math.prod(values.shape) if beyond > 1 else 0.0


def _rounding(values: np.ndarray | Tensor) -> float:
    """The relative rounding of a type of floating-point numbers; 0 of whole numbers."""
    if isinstance(values, Tensor):
        return torch.finfo(values.dtype).eps if values.is_floating_point() else 0.0
    return float(np.finfo(values.dtype).eps) if values.dtype.kind == "f" else 0.0


def _means(values: np.ndarray | Tensor, axes: tuple[int, ...], hidden: bool = False) -> list[float]:
    """Over these axes, in double precision; of what is seen where NaN are hidden."""
    if isinstance(values, Tensor):
        mean = torch.nanmean if hidden and values.is_floating_point() else torch.mean
        return mean(values, axes, dtype=torch.float64).tolist()
    return np.asarray((np.nanmean if hidden else np.mean)(values, axes, dtype=np.float64)).tolist()


def _extremes(values: np.ndarray | Tensor, axes: tuple[int, ...]) -> tuple[list[float], list[float]]:
    """Smallest and largest values over these axes."""
    if isinstance(values, Tensor):
        return values.amin(axes).double().tolist(), values.amax(axes).double().tolist()
    return tuple(np.asarray(bound, np.float64).tolist() for bound in (values.min(axes), values.max(axes)))


def _blank(values: np.ndarray | Tensor, channels_first: bool) -> bool:
    """Whether each channel of every observation is one number at all of its points, which are several."""
    points = tuple(range(2, values.ndim)) if channels_first else tuple(range(1, values.ndim - 1))
    if math.prod(values.shape[axis] for axis in points) < 2:
        return False

    def flat(part: np.ndarray | Tensor) -> bool:
        if isinstance(part, Tensor):
            return bool((part.amax(points) == part.amin(points)).all())
        return bool((part.max(points) == part.min(points)).all())

    return flat(values[:1]) and flat(values)


def _bounds(pairs: Sequence[Sequence[Any]]) -> tuple[tuple[float, float], ...]:
    """Smallest and largest values; ValueError where these are no ranges."""
    bounds = tuple((float(low), float(high)) for low, high in pairs)
    for low, high in bounds:
        if not -math.inf < low <= high < math.inf:
            raise ValueError(f"its observations lie between {low} and {high}")
    return bounds
