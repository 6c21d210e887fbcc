"""Labelled images of handwritten digits, or of anything else: a file and a line here each."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from niso.errors import InputError, nearest

if TYPE_CHECKING:
    from niso.data.digits.mnist import Digits

DIGITS = {
    "mnist": "niso.data.digits.mnist.mnist",
    "embedded": "niso.data.digits.mnist.embedded",
}


def find_digits(name: str) -> Callable[[Path | None], Digits]:
    """The function that reads a data set from the user's folder, or from where niso has it itself.

    Raises:
        InputError: there is no such data set; names the nearest.
    """
    if name not in DIGITS:
        raise InputError(f"unknown digits {name!r}{nearest(name, DIGITS)}")
    module, _, function = DIGITS[name].rpartition(".")
    read: Callable[[Path | None], Digits] = getattr(import_module(module), function)
    return read
