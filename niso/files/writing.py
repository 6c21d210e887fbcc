"""Files that are written completely or not at all."""

from __future__ import annotations

import glob
import os
import platform
import re
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

import numpy as np

from niso.errors import InputError, NisoError, first_line, remedy
from niso.files.digests import digest

STALE = 3600.0
"""Seconds after which nobody writes a temporary file any more, though its process seems to live: numbers come again."""


@contextmanager
def refusing(
    what: str, then: str = "", note: str = "", choice: str = "folder", kind: type[NisoError] = InputError
) -> Iterator[None]:
    """Turn what the file system refuses, e.g. on a full disk, into a message that says why, and what to do.

    Args:
        what: is done inside, to follow "cannot": "write to FOLDER".
        then: what else there is to do, to follow the remedy.
        note: to follow the reason.
        choice: what a user chooses the place by.
        kind: of the error.

    Raises:
        NisoError: of this kind, in place of an OSError.
    """
    try:
        yield
    except OSError as error:
        advice = remedy(error).replace("another folder", f"another {choice}")
        raise kind(f"cannot {what} ({error.strerror or first_line(error)}{note}): {advice}{then}") from error


@contextmanager
def replacing(path: Path, new: bool = False) -> Iterator[BinaryIO]:
    """A file that replaces `path` in one step when it is complete, and leaves nothing otherwise.

    Args:
        new: nothing may be replaced. Of several processes that write at once, one does.

    Raises:
        FileExistsError: with `new`, there is such a file.
        OSError: as the file system does; nothing half-written is left.
    """
    new_folders = [folder for folder in path.parents if not folder.exists()]  # the innermost first
    path.parent.mkdir(parents=True, exist_ok=True)
    for stale in temporaries(path):  # of a process killed while it wrote
        if not _writing(stale):
            stale.unlink(missing_ok=True)
    temporary = path.with_name(f".{_short(path.name)}.{os.getpid()}-{threading.get_ident()}-{_machine()}.tmp")
    try:
        with open(temporary, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        if not (new and _linked(temporary, path)):
            os.replace(temporary, path)
    except BaseException as error:
        with suppress(OSError):  # what refused the one may refuse the other
            temporary.unlink()
        with suppress(OSError):  # another process may have written there
            for made in new_folders:
                made.rmdir()
        if isinstance(error, OSError) and error.errno is not None and error.filename in (None, str(temporary)):
            error.filename = str(path)  # a full disk names no file
        raise
    if os.name == "posix":  # elsewhere a folder cannot be opened
        descriptor = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def temporaries(path: Path) -> Iterator[Path]:
    """Files beside `path` that were to replace it, or will be."""
    return path.parent.glob(f".{glob.escape(_short(path.name))}.*.tmp")


def _short(name: str) -> str:
    """A file's name, or a word for a long one: names have 255 bytes at most."""
    written = os.fsencode(name)
    return name if len(written) <= 160 else digest(written)


def _linked(temporary: Path, path: Path) -> bool:
    """Give a file its name, if no file has it; False where the file system has no links: the name is then taken, and a
    process that is killed before the file has it leaves it empty."""
    try:
        os.link(temporary, path)
    except FileExistsError:
        raise
    except OSError:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL))
        return False
    temporary.unlink()
    return True


def _machine() -> str:
    """What names of temporary files call this machine: several may share a folder."""
    return digest(platform.node().encode())


def _writing(temporary: Path) -> bool:
    """Whether a temporary file of `replacing` is young, and the process that it is named after lives, as far as this
    machine can know."""
    name = re.search(r"\.(\d+)-\d+-(\w*)\.tmp$", temporary.name)
    if not name:
        return False
    number, elsewhere = int(name[1]), name[2] != _machine()
    own = number == os.getpid()  # of another thread, or of an earlier process of that number
    if os.name != "posix" and not (own or elsewhere):
        return False
    try:
        if not (own or elsewhere):
            os.kill(number, 0)  # sends nothing
        return time.time() - temporary.stat().st_mtime < STALE
    except PermissionError:  # of another user
        return True
    except (OSError, OverflowError):  # there is no such process, or the file is gone
        return False


def write_atomically(path: Path, content: bytes) -> None:
    """Replace a file in one step: a reader, or a crash, sees the old content or the new, never a part.

    Raises:
        OSError: as the file system does; nothing half-written is left.
    """
    with replacing(path) as file:
        file.write(content)


def write_arrays(path: Path, arrays: Mapping[str, np.ndarray]) -> None:
    """Replace an .npz file in one step; errors as in `write_atomically`."""
    with replacing(path) as file:
        np.savez(file, **arrays)  # type: ignore[arg-type]  # no array is named `allow_pickle`
