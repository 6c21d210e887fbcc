"""The points that functions are given on: their coordinates and weights, and by what they are known again."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

GEOMETRY = ("points", "weights")
_SUMS = 4
_CLOSE = 1e-4  # of the root mean square: single precision keeps 1e-7


def normalised(key: str, values: np.ndarray) -> np.ndarray:
    """In float64; weights with a mean of 1."""
    values = values.astype(np.float64)
    if key == "weights":
        values /= values.max()  # whose mean does not overflow
        values /= values.mean()
    return values


def sketch(values: np.ndarray) -> list[float]:
    """A few numbers by which coordinates (N, dimensions) or weights (N,) are known again: sums with random signs."""
    signs = np.random.default_rng(len(values)).choice([-1.0, 1.0], (_SUMS, len(values)))
    return (signs @ values / np.sqrt(len(values))).ravel().tolist()


def is_of(known: Sequence[float], values: np.ndarray) -> bool:
    """Whether these are the values that a sketch is of, in this order, up to the rounding of a file."""
    found = sketch(values)
    size = np.sqrt(np.mean(np.square(values)))
    return len(found) == len(known) and bool(np.allclose(found, known, rtol=0, atol=_CLOSE * size))
