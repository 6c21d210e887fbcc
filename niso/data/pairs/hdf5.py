"""HDF5 files: their data sets as arrays. They need h5py, which is optional."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from niso.data.hdf5 import h5py_for
from niso.errors import InputError

HDF5 = (".h5", ".hdf5")
"""Endings of HDF5 files."""
_PACKED = ("scale_factor", "add_offset", "_FillValue", "missing_value")
"""Attributes by which other programs turn numbers that are stored into those that are meant."""


def names_in(path: Path) -> set[str]:
    """Names of what lies at the top of a file.

    Raises:
        InputError: h5py is missing.
    """
    with h5py_for(path).File(path, "r") as file:
        return set(file)


def read_sets(path: Path) -> Mapping[str, Any]:
    """The data sets at the top of a file: memory-mapped where they lie in one piece, which compressed ones do not.

    Raises:
        InputError: h5py is missing, something at the top is no data set, or numbers are packed.
    """
    h5py = h5py_for(path)
    with h5py.File(path, "r") as file:
        members = {name: file[name] for name in file}
        for name, member in members.items():
            if not isinstance(member, h5py.Dataset):
                raise InputError(f"{path}: {name} is no data set: put x, tx and others at the top of the file")
            if packed := [key for key in _PACKED if key in member.attrs]:
                remedy = "write the numbers that are meant, without it"
                raise InputError(f"{path}: {name} has the attribute {packed[0]}, which is not heeded: {remedy}")
        return {name: _array(h5py, path, member) for name, member in members.items()}


def _array(h5py: Any, path: Path, member: Any) -> np.ndarray:
    if h5py.check_string_dtype(member.dtype) is not None:
        return np.array(member.asstr()[...], dtype=str)
    start = member.id.get_offset()  # None for data sets in several pieces
    linked = not os.path.samefile(member.file.filename, path)  # where `start` counts
    elsewhere = linked or start is None or not member.size or member.is_virtual or member.external
    if elsewhere or member.dtype.kind not in "biuf" or member.id.get_type() != h5py.h5t.py_create(member.dtype):
        return np.asarray(member[...])  # which also converts numbers of types that NumPy lacks
    return np.memmap(path, member.dtype, "r", start, member.shape)
