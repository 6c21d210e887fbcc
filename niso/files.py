"""Files that are written completely or not at all, and folders for one process at a time."""

from __future__ import annotations

import glob
import hashlib
import json
import math
import os
import shlex
import shutil
import threading
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from filelock import FileLock, Timeout

from niso.errors import InputError
from niso.messages import say

STALE = 3600.0
"""Seconds after which nobody writes a temporary file any more, though its process seems to live: numbers come again."""

PATIENCE = 1.0
"""Seconds that a process waits for another one's lock without a word."""

PIECE = 1 << 13
"""Bytes of a file that are read at a time to see whether it has changed."""

CLUTTER = frozenset({".DS_Store", "Thumbs.db", "desktop.ini"})
"""Files that systems put into folders on their own: a folder with these alone is empty."""


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
    for stale in _temporaries(path):  # of a process killed while it wrote
        if not _writing(stale):
            stale.unlink(missing_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}-{threading.get_ident()}.tmp")
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


def _temporaries(path: Path) -> Iterator[Path]:
    """Files beside `path` that were to replace it, or will be."""
    return path.parent.glob(f".{glob.escape(path.name)}.*.tmp")


def is_empty(folder: Path, first: str, clutter: Collection[str] = CLUTTER) -> bool:
    """Whether a folder holds no files.

    Args:
        first: name of the file that is written first; a process killed while it wrote it left the folder empty.
        clutter: names that do not count.
    """
    return all(path.name in clutter for path in {*folder.iterdir()} - {*_temporaries(folder / first)})


def _linked(temporary: Path, path: Path) -> bool:
    """Give a file its name, if no file has it; False where the file system has no links."""
    try:
        os.link(temporary, path)
    except FileExistsError:
        raise
    except OSError:
        return False
    temporary.unlink()
    return True


def _writing(temporary: Path) -> bool:
    """Whether a temporary file of `replacing` is young, and the process that it is named after lives."""
    number = temporary.suffixes[-2].removeprefix(".").partition("-")[0]
    if not number.isdecimal():
        return False
    own = int(number) == os.getpid()  # of another thread, or of an earlier process of that number
    if os.name != "posix" and not own:
        return False
    try:
        if not own:
            os.kill(int(number), 0)  # sends nothing
        return time.time() - temporary.stat().st_mtime < STALE
    except PermissionError:  # of another user
        return True
    except (OSError, OverflowError):  # there is no such process, or the file is gone
        return False


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

    Hidden files and folders are passed over, and so are run folders. Links to folders are followed, each folder once;
    links to nothing are among the files, for who reads them to refuse.

    Raises:
        OSError: a folder cannot be read.
    """
    found, seen = list[Path](), set[str]()
    for place, folders, names in walk(folder, links=True):
        folders[:] = [name for name in folders if not name.startswith(".")]
        if holds_run(names) or (real := os.path.realpath(place)) in seen:
            folders.clear()
            continue
        seen.add(real)
        shown = (Path(place, name) for name in names if not name.startswith("."))
        found += [path for path in shown if path.suffix.lower() in suffixes and (path.is_file() or path.is_symlink())]
    return sorted(found)


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


def write_atomically(path: Path, content: bytes) -> None:
    """Replace a file in one step: a reader, or a crash, sees the old content or the new, never a part.

    Raises:
        OSError: as the file system does; nothing half-written is left.
    """
    with replacing(path) as file:
        file.write(content)


def write_json(path: Path, values: Mapping[str, Any]) -> None:
    """Replace a JSON file in one step; errors as in `write_atomically`. A number that is not finite, which JSON has no
    word for, becomes null."""
    content = json.dumps(_finite(values), indent=2, ensure_ascii=False, allow_nan=False)
    write_atomically(path, (content + "\n").encode())


def _finite(values: Any) -> Any:
    if isinstance(values, Mapping):
        return {key: _finite(value) for key, value in values.items()}
    if isinstance(values, list | tuple):
        return [_finite(value) for value in values]
    return None if isinstance(values, float) and not math.isfinite(values) else values


def nan_for_null(value: Any) -> Any:
    """What a JSON file has, with NaN for null, as which `write_json` writes numbers that are not finite."""
    return math.nan if value is None else value


def write_arrays(path: Path, arrays: Mapping[str, np.ndarray]) -> None:
    """Replace an .npz file in one step; errors as in `write_atomically`."""
    with replacing(path) as file:
        np.savez(file, **arrays)  # type: ignore[arg-type]  # no array is named `allow_pickle`


def parse_json(content: str | bytes) -> Any:
    """The values of a JSON document.

    Raises:
        ValueError: it is not JSON, or nested too deeply.
    """
    try:
        return json.loads(content)
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error


def check_new(folder: Path, place: str, first: str = "") -> None:
    """Check that a folder is new or empty, see `is_empty`.

    Args:
        place: what a user gives to choose the folder, for messages.

    Raises:
        InputError: it holds files, is a file, or is a link to nothing.
    """
    if folder.is_symlink() and not folder.exists():
        raise InputError(f"{folder} is a link to a place that does not exist: choose another {place}")
    if folder.exists() and not (folder.is_dir() and is_empty(folder, first)):
        raise InputError(f"{folder} exists and is not an empty folder: choose another {place}")


@contextmanager
def whole_folder(folder: Path, place: str) -> Iterator[Path]:
    """A folder to write into that comes to lie at `folder`, new or empty, in one step, when all of it is there.

    Until then it is hidden beside it. An error leaves nothing; what a killed process left goes at the next call.

    Args:
        place: as of `check_new`.

    Raises:
        InputError: as of `check_new`; another process makes the folder; or it is the working directory or a mount.
        OSError: as the file system does.
    """
    check_new(folder, place)
    target = folder.resolve()
    if target == Path.cwd() or target.is_mount():
        what = "a mount" if target.is_mount() else "the folder that you are in"
        raise InputError(f"{folder} is {what}, which cannot be replaced: give the name of a new folder")
    hidden = target.with_name(f".{target.name}.unfinished")
    new_folders = [hidden, *(parent for parent in target.parents if not parent.exists())]
    hidden.mkdir(parents=True, exist_ok=True)
    content = hidden / target.name
    with ExitStack() as lock:
        lock.enter_context(locked(hidden))
        shutil.rmtree(content, ignore_errors=True)
        try:
            content.mkdir()
            yield content
            if target.exists():
                for name in CLUTTER:
                    (target / name).unlink(missing_ok=True)
                target.rmdir()  # spares what was put there meanwhile
            content.rename(target)
        finally:
            shutil.rmtree(content, ignore_errors=True)
            with suppress(OSError):  # Windows removes no open file, but the lock that ends
                (hidden / ".lock").unlink()
            lock.close()
            with suppress(OSError):  # another process may have begun to write there
                for made in new_folders:
                    made.rmdir()


def write_new(folder: Path, name: str, content: str) -> None:
    """Write the first file of a new or empty folder, which a user chooses by --out.

    Raises:
        InputError: the folder holds other files, or cannot be written.
    """
    check_new(folder, "--out", name)
    try:
        with replacing(folder / name, new=True) as file:
            file.write(content.encode())
    except FileExistsError as error:
        raise InputError(f"another process has just begun to write to {folder}: choose another --out") from error
    except OSError as error:
        raise InputError(f"cannot write to {folder} ({error.strerror}): choose another --out") from error


def in_shell(path: Path) -> str:
    """A path as a command in a message has it: quoted where a shell needs that, and no option."""
    return shlex.quote(f"./{path}" if str(path).startswith("-") else str(path))


def no_folder(path: Path) -> str:
    """Why a path is not that of a folder, as a clause for messages."""
    return "is not a folder" if path.exists() else "does not exist"


def lacks(folder: Path, name: str) -> str:
    """Why a folder does not hold a file, as a clause for messages."""
    if folder.is_dir():
        return f"it has no {name}"
    return "it is a file" if folder.exists() else "there is no such folder"


def check_place(path: Path, option: str, file: bool = False) -> None:
    """Check that a folder can be made at a path, or a file, before the work for it begins.

    Args:
        option: the words that name the path, for the message.
        file: whether a file is to be there, not a folder.

    Raises:
        InputError: a folder is where a file is to be, or a file where a folder is, or it may not be written.
    """
    if file and path.is_dir():
        raise InputError(f"{option} {path} is a folder: give the name of a file")
    folder = path.parent if file else path
    there = next(place for place in (folder, *folder.parents) if place.exists())
    if not there.is_dir():
        given = path if there == path else f"{path} is in {there}, which"
        raise InputError(f"{option} {given} is a file, not a folder: choose another {option}")
    if not os.access(there, os.W_OK | os.X_OK):
        raise InputError(f"{option} {path} cannot be written: permit it in {there}, or choose another {option}")


@contextmanager
def locked(folder: Path, wait: bool = False) -> Iterator[None]:
    """Keep other processes from working on a folder; a lock ends with its process, however that ends.

    Args:
        wait: until no other process works on it, instead of an error; after `PATIENCE`, a line says so.

    Raises:
        InputError: another process works on it.
    """
    lock = FileLock(folder / ".lock")
    try:
        held = lock.acquire(timeout=PATIENCE if wait else 0)
    except Timeout as error:
        if not wait:
            raise InputError(f"another process works on {folder}: wait for it, or stop it first") from error
        from niso.random import process  # torch is slow to import

        if process()[0] == 0:  # of processes that train together, one says so
            say(f"waiting for another process that works on {folder}, and locks {lock.lock_file}")
        held = lock.acquire()
    with held:
        yield
