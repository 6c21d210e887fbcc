"""Lines for the user about what goes on, on stderr."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_quiet: ContextVar[bool] = ContextVar("quiet", default=False)


@contextmanager
def quiet() -> Iterator[None]:
    """Without bars and other words on stderr."""
    token = _quiet.set(True)
    try:
        yield
    finally:
        _quiet.reset(token)


def is_quiet() -> bool:
    """Whether this is inside `quiet`."""
    return _quiet.get()


def say(line: str) -> None:
    """Print a line on stderr, unless inside `quiet`."""
    if not is_quiet():
        print(line, file=sys.stderr)
