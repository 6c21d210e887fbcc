"""Paths that users give, in commands and messages."""

from __future__ import annotations

import os
import shlex
from pathlib import Path

from niso.errors import InputError


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
