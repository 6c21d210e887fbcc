"""Labelled images of handwritten digits, or of anything else: a file and a line here each."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from niso.registry import Registry

if TYPE_CHECKING:
    from niso.data.digits.mnist import Digits

DIGITS: Registry[Callable[[Path | None], Digits]] = Registry(
    "digits",
    {
        "mnist": "niso.data.digits.mnist.mnist",
        "embedded": "niso.data.digits.mnist.embedded",
    },
)
"""Functions that read a data set from the user's folder, or from where niso has it itself."""

SHIPPED = frozenset({"embedded"})
"""Those that come with a library, and that no folder of the user's can replace."""
