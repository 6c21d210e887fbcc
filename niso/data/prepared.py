"""What prepared folders of shapes and of frames share: facts in JSON files, and errors that say how to go on."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from niso.errors import InputError
from niso.files import write_atomically

PARAMETERS, REFUSED = "parameters.json", "refused.json"
AGAIN = "give the same command again to go on"


def write_json(path: Path, values: dict[str, Any]) -> None:
    """Write a JSON file of a prepared folder in one step."""
    write_atomically(path, (json.dumps(values, indent=2, ensure_ascii=False) + "\n").encode())


def read_json(path: Path) -> dict[str, Any]:
    """A JSON file of a prepared folder.

    Raises:
        InputError: it cannot be read, or does not hold an object.
    """
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"cannot read {path} ({error}): remove it and prepare the folder again") from error
    if not isinstance(values, dict):
        raise InputError(f"{path} does not hold facts of a preparation: remove it and prepare the folder again")
    return values


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turn what the file system refuses, e.g. on a full disk, into an InputError that names the remedy."""
    try:
        yield
    except OSError as error:
        problem = error.strerror or error
        raise InputError(f"cannot write {path} ({problem}): free space or permit it, then {AGAIN}") from error


def check_folder(out: Path, what: str, parameters: dict[str, Any]) -> bool:
    """Whether a folder to prepare into holds a preparation already, which these parameters go on with.

    Args:
        what: "shapes" or "frames".

    Raises:
        InputError: it is not a folder, holds something else, or was prepared with other parameters.
    """
    if out.exists() and not out.is_dir():
        raise InputError(f"{out} is not a folder: choose another one")
    if not (out / PARAMETERS).is_file():
        if out.is_dir() and any(path.name != ".lock" for path in out.iterdir()):
            raise InputError(f"{out} is not empty and holds no prepared {what}: choose another folder")
        return False
    there = read_json(out / PARAMETERS)
    for name, value in parameters.items():
        if there.get(name) != value:
            raise InputError(
                f"the {what} in {out} were prepared with {name} {there.get(name)}, not {value}: choose another folder"
            )
    return True
