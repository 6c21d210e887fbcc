"""h5py, which reads HDF5 and is optional."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

from niso.errors import InputError


def h5py_for(path: Path) -> Any:
    """The module h5py, to read a file.

    Raises:
        InputError: it is not installed.
    """
    try:
        return importlib.import_module("h5py")
    except ImportError as error:
        raise InputError(f"{path} is HDF5, which needs h5py: pip install h5py") from error
