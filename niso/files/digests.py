"""Short words for content, which change where it does."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from pathlib import Path

PIECE = 1 << 13
"""Bytes of a file that are read at a time to see whether it has changed."""


def digest(*parts: bytes) -> str:
    """A short word for content: it changes where any part does."""
    result = hashlib.blake2b(digest_size=8)
    for part in parts:
        result.update(len(part).to_bytes(8, "big") + part)
    return result.hexdigest()


def digest_of_files(files: Sequence[Path], folder: Path | None = None) -> str:
    """A word for files, of 32 characters: it changes where one is added, removed or renamed, or has other content. Of
    that a beginning, a middle and an end of `PIECE` are read. The first half is of names and sizes alone.

    Args:
        folder: where they are; its own place does not count. By default their names alone count.
    """
    names = (file.relative_to(folder).as_posix() if folder else file.name for file in files)
    words = (f"{file.stat().st_size} {name}" for file, name in zip(files, names, strict=True))
    listed = digest(*(word.encode(errors="surrogateescape") for word in words))  # of names whose bytes are no text
    return listed + digest(*(_pieces(file).encode() for file in files))


def _pieces(file: Path) -> str:
    """A short word for pieces of a file, of a small one for all of it."""
    with open(file, "rb") as opened:
        last = max(0, os.fstat(opened.fileno()).st_size - PIECE)
        return digest(*(opened.read(PIECE) for place in sorted({0, last // 2, last}) if opened.seek(place) == place))
