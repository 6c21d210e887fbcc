"""Pictures of one size as one array."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from niso.data.squares import read_square
from niso.errors import InputError, counted, some_of


def read_pictures(files: Sequence[Path], size: int) -> np.ndarray:
    """The largest centred square of each picture, resized: (pictures, 3, size, size) in 0 … 255.

    Raises:
        InputError: some cannot be read; the first is named with its folder, and a few others.
    """
    pixels, refused = np.empty((len(files), 3, size, size), np.uint8), dict[Path, InputError]()
    for place, file in zip(pixels, files, strict=True):
        try:
            place[:] = np.asarray(read_square(file, size)[0]).transpose(2, 0, 1)
        except InputError as error:
            where = f"{file.parent}: " if file.parent.name else ""
            refused[file] = InputError(f"{where}{error}")
    check_usable(refused)
    return pixels


def check_usable(refused: Mapping[Path, InputError]) -> None:
    """InputError where pictures were refused: why the first was, and the names of a few others."""
    if not refused:
        return
    error, others = next(iter(refused.values())), [file.name for file in refused][1:]
    more = f"; {counted(len(others), 'other')} cannot be used either: {some_of(others)}" if others else ""
    raise InputError(f"{error}{more}") from error


def check_memory(what: str, count: int, size: int, gigabytes: float, expected: int = 0) -> None:
    """InputError where so many squares would take more memory than is allowed.

    Args:
        expected: number that there will be, where more are to come and it is known; it is named, and not refused.
    """
    if count * 3 * size**2 / 1e9 > gigabytes:
        count = max(count, expected)
        needed = count * 3 * size**2 / 1e9
        raise InputError(
            f"{count:,} {what} of {size}×{size} pixels take {needed:.1f} GB of memory: "
            f"allow it by --memory {np.ceil(needed):.0f}, or choose a smaller --size"
        )
