"""How values become numbers of order one."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from niso.data.pairs.table import Table, blocks
from niso.errors import InputError

_ROWS = 4_096
"""Rows, at most, whose values a scale or a mean is of."""
_SAMPLE = 1 << 29
"""Bytes that a sample of rows takes, at most."""
_WIDE = (torch.int32, torch.int64, torch.float64)
"""Types whose values have more digits than float32 holds."""


class Scaling(NamedTuple):
    """How values become numbers of order one: (value − offset) / scale, a number each for every channel.

    Attributes:
        offset, scale: one number, or one a channel.
    """

    offset: tuple[float, ...]
    scale: tuple[float, ...]


BYTES = Scaling((127.5,), (127.5,))
"""Of values 0 … 255 to −1 … 1."""
_BRIGHT = 32
"""Pictures in bytes have values as large; masks, labels and counts in bytes have not, and are scaled by their own."""
_UNLIKE = 0.05
"""Share of the range of all channels of images below which one of them has another unit."""
_LARGEST, _SMALLEST = float(np.finfo(np.float32).max), float(np.finfo(np.float32).tiny)
"""Scaled values are float32, and so is what predictions are scaled back by."""


def scaling_of(table: Table, rows: np.ndarray) -> Scaling:
    """How values are scaled: images and volumes to −1 … 1, from 0 … 255 where they are pictures in bytes and else from
    their own range, all channels alike or, where the range of one is far smaller or apart from another's, each by its
    own, where constants become −1; others to mean 0 and deviation 1 of each channel.

    Args:
        rows: to train on; what is scaled depends on no others.

    Raises:
        InputError: values are too large to be scaled.
    """
    x = table.views["x"]
    chosen = sample(x, rows, _ROWS)
    if table.channels_first:
        axes = all_but_channels(chosen.ndim, True)
        lowest, highest = chosen.min(axes), chosen.max(axes)
        if table.kind == "images" and x.dtype == np.uint8 and highest.max() >= _BRIGHT:
            return BYTES
        widths, whole = highest - lowest, highest.max() - lowest.min()
        varying = widths > rounding(x.dtype) * np.maximum(abs(lowest), abs(highest))
        apart = varying.any() and lowest[varying].max() > highest[varying].min()  # as kelvins are from hectopascals
        if not (apart or (varying & (widths < _UNLIKE * whole)).any()):
            lowest, highest = lowest.min(keepdims=True), highest.max(keepdims=True)
            varying = highest > lowest
        middle, half = (lowest + highest) / 2, (highest - lowest) / 2
        step = step_from(lowest)
        middle = np.where(varying, middle, lowest + step)  # constants are −1, as what rotations bring into view
        scaling = Scaling(tuple(middle.tolist()), tuple(np.where(varying, half, step).tolist()))
    else:
        axes = all_but_channels(chosen.ndim, False)
        lowest, highest = chosen.min(axes), chosen.max(axes)
        with np.errstate(over="ignore", invalid="ignore"):  # which is refused below
            _, power = np.frexp(np.maximum(abs(lowest), abs(highest)))  # squares of what is small would be 0
            offset, deviation = chosen.mean(axes), np.ldexp(np.ldexp(chosen, -power).std(axes), power)
        constant = (lowest == highest) | (deviation <= rounding(x.dtype) * np.maximum(abs(lowest), abs(highest)))
        scaling = Scaling(tuple(offset.tolist()), tuple(np.where(constant, 1.0, deviation).tolist()))
    if not (np.abs(scaling) <= _LARGEST).all():
        reached = np.abs(chosen).max()
        raise InputError(f"{table.name}: values of x reach {reached:.0e}: bring them to smaller units")
    if min(scaling.scale) < _SMALLEST:
        raise InputError(
            f"{table.name}: values of x differ by as little as {min(scaling.scale):.0e}: bring them to larger units"
        )
    return scaling


def step_from(constant: float | np.ndarray) -> np.float64 | np.ndarray:
    """The scale of a constant channel of images: 1, or the distance of numbers of float32 there, where that is larger,
    so that float32 tells the constant plus its scale from the constant."""
    _, power = np.frexp(constant)
    return np.maximum(1.0, np.ldexp(1.0, power - 24))


def rounding(dtype: np.dtype) -> float:
    """Relative differences of values of a type that are no more than rounding."""
    return 1e-6 if dtype.kind == "f" and dtype.itemsize <= 4 else 1e-13


def sample(values: np.ndarray, rows: np.ndarray, count: int) -> np.ndarray:
    """At most `count` of these rows, and half a gigabyte of them, evenly spread from the first to the last."""
    fits = max(2, _SAMPLE // (8 * max(1, values[:1].size)))
    chosen = rows[np.linspace(0, len(rows) - 1, min(count, fits, len(rows))).astype(int)]
    return values[np.sort(chosen)].astype(np.float64)


class Bounds(NamedTuple):
    """Smallest and largest values (views, rows, channels) of each observation, or of all channels together (views,
    rows, 1) where they have one scale."""

    low: np.ndarray
    high: np.ndarray


def bounds_of(table: Table, scaling: Scaling) -> Bounds | None:
    """Those of all views, by one look at the data; None of pictures in bytes."""
    if scaling == BYTES:
        return None
    axes = all_but_channels(table.views["x"].ndim, table.channels_first)[1:]
    found = [
        [
            np.concatenate(side)
            for side in zip(*((part.min(axes), part.max(axes)) for part in blocks(view)), strict=True)
        ]
        for view in table.views.values()
    ]
    low, high = (np.stack(side).astype(float) for side in zip(*found, strict=True))
    if len(scaling.offset) == 1:
        low, high = low.min(2, keepdims=True), high.max(2, keepdims=True)
    return Bounds(low, high)


def ranges_of(bounds: Bounds | None) -> tuple[list[float], list[float]]:
    """Smallest and largest values of all views, by which observations in other units are told from these: one of each,
    or one a channel."""
    return ([0.0], [255.0]) if bounds is None else (bounds.low.min((0, 1)).tolist(), bounds.high.max((0, 1)).tolist())


def means_of(table: Table, rows: np.ndarray) -> list[float]:
    """Means of the channels of x, by which negatives are told from what is trained on: of rows to train on."""
    chosen = sample(table.views["x"], rows, _ROWS)
    return chosen.mean(all_but_channels(chosen.ndim, table.channels_first)).tolist()


def all_but_channels(ndim: int, channels_first: bool) -> tuple[int, ...]:
    """Axes of observations (n, C, …) or (n, …, C) that are not that of channels."""
    return (0, *range(2, ndim)) if channels_first else tuple(range(ndim - 1))


def units_of(table: Table, scaling: Scaling) -> str:
    """That channels of images are scaled by their own ranges; empty where they are not."""
    several = table.channels_first and len(scaling.offset) > 1
    return "channels have different ranges: each is scaled by its own" if several else ""


def scaled(values: Tensor, scaling: Scaling, channels_first: bool) -> Tensor:
    """(values − offset) / scale in float32."""
    values = values.double() if values.dtype in _WIDE else values.float()
    offset, scale = _tensors(scaling, _axes(values, channels_first), values.dtype, values.device)
    return ((values - offset) / scale).float()


def unscaled(values: Tensor, scaling: Scaling, channels_first: bool) -> Tensor:
    """Inverse of `scaled`, in the type of the values."""
    offset, scale = _tensors(scaling, _axes(values, channels_first), values.dtype, values.device)
    return values * scale + offset


def _axes(values: Tensor, channels_first: bool) -> int:
    """Axes of observations after that of channels."""
    return values.ndim - 2 if channels_first else 0


@lru_cache
def _tensors(scaling: Scaling, axes: int, dtype: torch.dtype, device: torch.device) -> tuple[Tensor, Tensor]:
    """Offset and scale on a device. They are copied there once: the host waits for such a copy."""
    with torch.inference_mode(False):  # whatever the first caller's mode
        offset, scale = (torch.tensor(part, dtype=dtype, device=device).reshape(-1, *[1] * axes) for part in scaling)
    return offset, scale
