"""Lines for the user about what goes on, on stderr."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, redirect_stderr
from contextvars import ContextVar
from typing import IO, Any, cast

from niso.errors import in_words_of_python

WRONG = "! "
"""With which lines begin that say what is wrong."""

_quiet: ContextVar[bool] = ContextVar("quiet", default=False)
_to_python: ContextVar[bool] = ContextVar("to_python", default=False)


@contextmanager
def _inside(flag: ContextVar[bool]) -> Iterator[None]:
    token = flag.set(True)
    try:
        yield
    finally:
        flag.reset(token)


def quiet() -> AbstractContextManager[None]:
    """Without bars and other words on stderr; lines that say what is wrong, `! …`, become warnings."""
    return _inside(_quiet)


def is_quiet() -> bool:
    """Whether this is inside `quiet`."""
    return _quiet.get()


def to_python() -> AbstractContextManager[None]:
    """Lines name arguments where they name flags of the command line."""
    return _inside(_to_python)


def say(line: str) -> None:
    """Print a line on stderr; inside `quiet` warn of what is wrong alone."""
    line = in_words_of_python(line) if _to_python.get() else line
    if not is_quiet():
        print(line, file=sys.stderr)
    elif line.startswith(WRONG):
        warnings.warn(line.removeprefix(WRONG), stacklevel=2)


@contextmanager
def unheard() -> Iterator[None]:
    """While inside, no work ends because nobody can read stderr any more: a pipe without a reader, a full disk."""
    if sys.stderr is None:  # closed
        yield
        return
    with redirect_stderr(cast(IO[str], _Unheard(sys.stderr))):
        yield


class _Unheard:
    """A stream that loses words where they cannot be written."""

    def __init__(self, stream: Any) -> None:
        self.stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)

    def write(self, text: str) -> int:
        try:
            self.stream.write(text)
        except OSError:
            self._lost()
        return len(text)

    def flush(self) -> None:
        try:
            self.stream.flush()
        except OSError:
            self._lost()

    def _lost(self) -> None:
        """From now on words go nowhere, also those that still wait to be written."""
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, self.stream.fileno())
        os.close(nowhere)
