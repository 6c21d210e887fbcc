"""What lies in a folder and below."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterator
from pathlib import Path


def holds_run(names: Collection[str]) -> bool:
    """Whether a folder with files of these names is that of a run: its figures are no observations."""
    return {"config.yaml", "run.json"} <= set(names)


def walk(folder: Path, links: bool = False) -> Iterator[tuple[str, list[str], list[str]]]:
    """As `os.walk`, but what lies in a folder that cannot be read is not left out without a word.

    Args:
        links: whether links to folders are followed.

    Raises:
        OSError: as the file system does. A folder that is not there holds nothing.
    """

    def refuse(error: OSError) -> None:
        if not isinstance(error, FileNotFoundError | NotADirectoryError):
            raise error

    return os.walk(folder, onerror=refuse, followlinks=links)


def files_below(folder: Path, suffixes: Collection[str]) -> list[Path]:
    """Files with one of these endings in a folder and below, in the order of their paths.

    Hidden files and folders are passed over, and so are run folders. Links to folders are followed, each folder once,
    by its own name if that is beside the link; links to nothing are among the files, for who reads them to refuse.

    Raises:
        OSError: a folder cannot be read.
    """
    found, seen = list[Path](), set[str]()
    for place, folders, names in walk(folder, links=True):
        shown_folders = (name for name in folders if not name.startswith("."))
        folders[:] = sorted(shown_folders, key=lambda name: (os.path.islink(os.path.join(place, name)), name))
        if holds_run(names) or (real := os.path.realpath(place)) in seen:
            folders.clear()
            continue
        seen.add(real)
        shown = (Path(place, name) for name in names if not name.startswith("."))
        found += [path for path in shown if path.suffix.lower() in suffixes and (path.is_file() or path.is_symlink())]
    return sorted(found)


def natural(name: str) -> list[tuple[int, int, str]]:
    """Sort key that places frame2 before frame10, however many digits there are."""
    parts = [part for part in re.split(r"([0-9]+)", name) if part]
    numbers = [part.lstrip("0") if part[0] in "0123456789" else None for part in parts]
    return [(1, 0, part) if n is None else (0, len(n), n) for part, n in zip(parts, numbers, strict=True)]
