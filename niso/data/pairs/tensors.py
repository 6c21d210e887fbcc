"""Arrays as tensors."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

_KEPT = (np.uint8, np.int16, np.int32, np.float32, np.float64)
"""Types that tensors share with arrays."""


def as_tensor(values: np.ndarray) -> Tensor:
    """An array of any real type as a tensor; types that torch lacks, and half precision, as floats that hold them.

    Raises:
        TypeError: the values are no real numbers.
        ValueError: some are masked.
    """
    if np.ma.is_masked(values):
        raise ValueError("some values are masked: fill them")
    if values.dtype.kind not in "buif":
        raise TypeError(f"values must be real numbers, not of type {values.dtype}")
    native = values.dtype.newbyteorder("=")
    values = np.ascontiguousarray(values, native)
    forward = min(values.strides) >= 0  # along an axis of one value, NumPy calls any stride contiguous
    kept = values.dtype in _KEPT and values.flags.writeable and forward
    return torch.from_numpy(values if kept else values.astype(_kept(native), order="C"))


def bytes_of(values: np.ndarray) -> int:
    """Bytes that an array takes as a tensor, see `as_tensor`."""
    return values.size * _kept(values.dtype.newbyteorder("=")).itemsize


def _kept(dtype: np.dtype) -> np.dtype:
    if dtype in _KEPT:
        return dtype
    return np.dtype(np.float64 if dtype.itemsize > 4 or dtype == np.uint32 else np.float32)
