"""Which reader a path is for."""

from __future__ import annotations

from pathlib import Path

from niso.data.pairs import READERS
from niso.data.pairs.table import Reader, Reading
from niso.errors import InputError


def find_reader(path: Path, reading: Reading) -> type[Reader]:
    """The reader of a path.

    Raises:
        InputError: there is no such path, or nothing that is read.
    """
    if not path.exists():
        raise InputError(f"{path} does not exist: give --data, or to a run in its config.yaml, {choices()}")
    for name in READERS:
        reader = READERS.find(name)
        if reader.fits(path, reading):
            return reader
    raise InputError(f"{path} holds nothing that can be paired: give --data {choices()}")


def choices() -> str:
    """What DATA can be, in words."""
    kinds = [READERS.find(name) for name in READERS]
    return "; ".join(kind.takes for kind in kinds[:-1]) + f"; or {kinds[-1].takes}"
