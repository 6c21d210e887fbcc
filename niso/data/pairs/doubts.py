"""What makes the values of observations doubtful: a few far off, amplitudes of many decades, numbers for missing ones,
views in other units."""

from __future__ import annotations

import numpy as np

from niso.data.evenly import evenly
from niso.data.pairs.scaling import BYTES, Bounds, Scaling, all_but_channels, rounding, sample
from niso.data.pairs.table import Table
from niso.errors import some_of

_NARROW = {"images": 0.02, "volumes": 0.02, "signals": 0.2, "points": 0.2}
"""Ranges of scaled values, but for a thousandth: where one is narrower, a few extreme values have made it so."""
_FAINT = 1e-3
"""Half the range of scaled values of an observation that is nearly one number to a model."""
_MANY = 0.05
"""Share of such observations from which they are said: a few blank ones are usual."""
_SELDOM = 1e-3
"""Share of values of which one that is far off is not said to be repeated."""
_CLASSES = 16
"""Different values of what may be numbers of classes."""
_EXACT = 1e-4
"""Share by which energies change by rounding alone."""
_MOST, _ALL = 0.7, 0.99
"""Shares of the pairs whose energy so changes, between which it is doubtful that the others are pairs."""
_PAIRS, _FEW = 512, 20
"""Pairs that are looked at, at most, and that must differ, at least."""
_APART = 20
"""Ratio of the ranges of two views from which they have other units."""


def extremes_of(table: Table, rows: np.ndarray, scaling: Scaling) -> str:
    """That few values are so large that all others of a channel, or of images, are scaled to nearly one number, or that
    one value may stand for missing ones; empty where neither is so."""
    if scaling == BYTES:
        return ""
    values = table.views["x"]
    x = sample(values, rows, 256)
    alike = table.channels_first and len(scaling.offset) == 1
    axes = None if alike else all_but_channels(x.ndim, table.channels_first)
    low = np.atleast_1d(np.percentile(x, 0.05, axes, method="higher"))  # without the extreme one of few
    high = np.atleast_1d(np.percentile(x, 99.95, axes, method="lower"))
    narrow = high - low > rounding(values.dtype) * np.maximum(abs(low), abs(high))
    narrow &= high - low < _NARROW[table.kind] * np.array(scaling.scale)
    if not narrow.any():
        return _missing(table, rows)
    channel = int(np.argmax(narrow))
    where = f" of channel {channel}" if len(narrow) > 1 else ""
    return (
        f"nearly all values{where} are between {low[channel]:.3g} and {high[channel]:.3g}, and a few far off: clip or "
        "remove those"
    )


def faint_ones(table: Table, bounds: Bounds | None, rows: np.ndarray, scaling: Scaling) -> str:
    """That many observations vary so little, in one channel or, where all have one scale, in all, that they are scaled
    to nearly one number, as where amplitudes are of many decades; empty where they are few, or constant.

    Args:
        bounds: of the observations; None of pictures in bytes.
        rows: to train on.
    """
    if bounds is None:
        return ""
    low, high, scale = bounds.low[0, rows], bounds.high[0, rows], np.array(scaling.scale)
    digits = rounding(table.views["x"].dtype)
    width, reach = high - low, np.maximum(abs(low), abs(high))
    constant = (width <= digits * reach) | (high.max(0) - low.min(0) < scale)  # no scale of values is above half of it
    faint = ~constant & (width < 2 * _FAINT * scale)
    seen = faint & (width > digits * reach.max(0))  # blank ones may hold rounding of what filters made of larger values
    channels = np.flatnonzero(seen.mean(0) > _MANY)
    if not len(channels):
        return ""
    channel = channels[0]
    where = f" in channel {channel}" if len(scale) > 1 else ""
    these = faint[:, channel]
    small = low[:, channel].min() > 0 and np.median(reach[these, channel]) < scale[channel]  # not far from 0 themselves
    return (
        f"{100 * these.mean():.0f} % of the observations vary{where} by less than a thousandth of what all do, and are "
        f"nearly one number to the model: standardise each{', or take logarithms' if small else ''}"
    )


def _missing(table: Table, rows: np.ndarray) -> str:
    """That the smallest or largest number of a channel occurs often, and is farther from all others than these are from
    each other, as −9999 is where nothing was measured; empty where none is."""
    axis = 1 if table.channels_first else -1
    for key, view in table.views.items():
        x = np.moveaxis(sample(view, rows, 256), axis, -1).reshape(-1, table.channels)
        for sign in (1, -1):
            values = sign * x
            lowest, highest = values.min(0), values.max(0)
            same = values == lowest
            next_one = np.where(same, np.inf, values).min(0)
            apart = (next_one - lowest > highest - next_one) & (highest > next_one)
            share = same.mean(0)
            for channel in np.flatnonzero(apart & (same.sum(0) > 1) & (_SELDOM < share) & (share <= 0.5)):
                others = sign * values[~same[:, channel], channel]
                if len(np.unique(others[:: max(1, len(others) // 1000)])) > _CLASSES:
                    return (
                        f"{100 * share[channel]:.2g} % of channel {channel} of {key} are {sign * lowest[channel]:g}, "
                        f"far from all else ({others.min():g} … {others.max():g}): if that stands for missing values, "
                        "fill these, or leave their observations out"
                    )
    return ""


def mismatched(table: Table, rows: np.ndarray) -> str:
    """That most pairs have observations of one energy, but for rounding, as where T moves values, and the others have
    not; empty where that is not so."""
    if "tx" not in table.views:
        return ""
    rows = np.sort(rows[evenly(_PAIRS, len(rows)).numpy()])
    x, tx = (table.views[key][rows].astype(np.float64) for key in ("x", "tx"))
    moved = (x != tx).reshape(len(x), -1).any(1)
    if moved.sum() < _FEW:
        return ""
    rows, x, tx = rows[moved], x[moved], tx[moved]
    mean = x.mean(all_but_channels(x.ndim, table.channels_first), keepdims=True)
    axes = all_but_channels(x.ndim, table.channels_first)[1:]
    mass = 1.0 if table.weights is None else table.weights[:, None] / table.weights.mean()
    before, after = ((mass * np.square(view - mean)).sum(axes) for view in (x, tx))
    same = (abs(after - before) <= _EXACT * before).all(1)
    if not _MOST <= same.mean() < _ALL:
        return ""
    others = some_of([str(row) for row in rows[~same]])
    return (
        f"x and tx of {100 * same.mean():.0f} % of the pairs differ and have the same energy, and those of the others "
        f"have not (rows {others}): are these mismatched?"
    )


def other_units(table: Table, rows: np.ndarray) -> str:
    """That another view has a far larger or smaller range than x, by which it is scaled, or a channel of it lies far
    off; empty where none does."""
    x, *others = (sample(values, rows, 256) for values in table.views.values())
    _, *keys = table.views
    for key, values in zip(keys, others, strict=True):
        width, of_x = float(np.ptp(values)), float(np.ptp(x))
        if min(width, of_x) > 0 and not 1 / _APART <= width / of_x <= _APART:
            return f"the range of {key} is {width / of_x:.2g} times that of x: give both in the same units"
    if table.channels_first:
        return ""
    axes = all_but_channels(x.ndim, False)
    mean = x.mean(axes)
    reach = np.abs(x - mean).max(axes)
    varying = reach > rounding(table.views["x"].dtype) * np.abs(mean)
    for key, values in zip(keys, others, strict=True):
        times = np.abs(values - mean).max(axes) / np.where(varying, reach, np.inf)
        if times.max() > _APART:
            channel = int(times.argmax())
            return (
                f"channel {channel} of {key} lies up to {times[channel]:.2g} times as far from the mean of x as x "
                "does: remove what is constant, or give both in the same units"
            )
    return ""
