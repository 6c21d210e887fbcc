"""Labelled images of handwritten digits, or of anything else: a file and a line here each."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING

from niso.errors import InputError
from niso.registry import Registry

if TYPE_CHECKING:
    from niso.data.digits.mnist import Digits

DIGITS: Registry[Callable[..., Digits]] = Registry(
    "digits",
    {
        "mnist": "niso.data.digits.mnist.mnist",
        "embedded": "niso.data.digits.mnist.embedded",
    },
    group=__name__,
)
"""Functions of the user's folder, or of nothing where a data set needs none."""


def of_folder() -> tuple[str, ...]:
    """Names of the data sets that are read from a folder of the user's."""
    found = []
    for name in DIGITS:
        with suppress(InputError, TypeError, ValueError):  # an entry that names nothing, or no function, harms no other
            if signature(DIGITS.find(name)).parameters:
                found.append(name)
    return tuple(found)


def read_digits(name: str, data_dir: Path | None) -> Digits:
    """The data set of this name.

    Raises:
        InputError: there is none, it cannot be read, its function takes other arguments, or it returns something else,
            see `check_digits`.
    """
    from niso.data.digits.mnist import check_digits  # loads torch

    read = DIGITS.find(name)
    if not callable(read):
        raise InputError(f"digits {name}: {DIGITS[name]} is no function")
    folder = (data_dir,) if name in of_folder() else ()
    try:
        signature(read).bind(*folder)
    except (TypeError, ValueError) as error:
        problem = f"{DIGITS[name]} must be a function of the data folder, or of nothing ({error})"
        raise InputError(f"digits {name}: {problem}") from error
    return check_digits(name, read(*folder))
