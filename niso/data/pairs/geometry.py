"""The points that functions are given on: their coordinates and weights, and by what they are known again."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

GEOMETRY = ("points", "weights")
_SUMS = 16
_CLOSE = 1e-3  # of a deviation: a swap of two points changes sums by more


def normalised(key: str, values: np.ndarray) -> np.ndarray:
    """In float64; weights with a mean of 1."""
    values = values.astype(np.float64)
    if key == "weights":
        values /= values.max()  # whose mean does not overflow
        values /= values.mean()
    return values


def sketch(values: np.ndarray) -> list[float]:
    """A few numbers by which coordinates (N, dimensions) or weights (N,) are known again.

    Mean and deviation of each axis, and sums of what lies between, with random signs.
    """
    columns = values.reshape(len(values), -1).astype(np.float64)
    mean, deviation = columns.mean(0), columns.std(0)
    signs = 2 * np.random.RandomState(len(values)).randint(2, size=(_SUMS, len(values))) - 1  # in any NumPy the same
    sums = signs @ ((columns - mean) / _at_least_tiny(deviation)) / np.sqrt(len(values))
    return np.concatenate([mean, deviation, sums.ravel()]).tolist()


def is_of(known: Sequence[float], values: np.ndarray, dtype: np.dtype) -> bool:
    """Whether these are the values that a sketch is of, in this order, up to the rounding of the type that they had."""
    axes = len(known) // (2 + _SUMS)
    if values.ndim not in (1, 2) or not len(values) or (values.shape[1] if values.ndim == 2 else 1) != axes:
        return False
    rounding = float(np.finfo(dtype).eps) if dtype.kind == "f" else 0.0
    found, expected = (np.split(np.asarray(part), [axes, 2 * axes]) for part in (sketch(values), known))
    unit = _at_least_tiny(expected[1])
    rounded = rounding * (np.abs(expected[0]) + expected[1]) / unit  # of a value, in deviations
    moments = [np.abs(found[part] - expected[part]) / unit for part in (0, 1)]
    sums = np.abs(found[2] - expected[2]).reshape(_SUMS, axes)
    return all(bool((part <= _CLOSE + 4 * rounded).all()) for part in (*moments, sums))


def _at_least_tiny(deviation: np.ndarray) -> np.ndarray:
    return np.maximum(deviation, np.finfo(np.float64).tiny)
