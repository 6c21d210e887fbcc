"""Folders that are new or empty, and become whole."""

from __future__ import annotations

import shutil
from collections.abc import Collection, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from niso.errors import InputError
from niso.files.locks import locked
from niso.files.writing import refusing, replacing, temporaries

CLUTTER = frozenset({".DS_Store", "Thumbs.db", "desktop.ini"})
"""Files that systems put into folders on their own: a folder with these alone is empty."""


def is_empty(folder: Path, first: str, clutter: Collection[str] = CLUTTER) -> bool:
    """Whether a folder holds no files.

    Args:
        first: name of the file that is written first; a process killed while it wrote it left the folder empty.
        clutter: names that do not count.
    """
    return all(path.name in clutter for path in {*folder.iterdir()} - {*temporaries(folder / first)})


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


def write_new(folder: Path, name: str, content: str) -> None:
    """Write the first file of a new or empty folder, which a user chooses by --out.

    Raises:
        InputError: the folder holds other files, or cannot be written.
    """
    check_new(folder, "--out", name)
    with refusing(f"write to {folder}", choice="--out"):
        try:
            with replacing(folder / name, new=True) as file:
                file.write(content.encode())
        except FileExistsError as error:
            raise InputError(f"another process has just begun to write to {folder}: choose another --out") from error


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
