"""Options of a command from a dataclass: help texts from its docstrings, and errors in one line."""

from __future__ import annotations

import contextlib
import io
import os
import re
from typing import TypeVar

from niso.errors import InputError

C = TypeVar("C")


def parse(kind: type[C], program: str, arguments: list[str]) -> C:
    """The options of a call.

    Raises:
        InputError: anything wrong with them, in one line.
        SystemExit: help was asked for, and printed.
    """
    import tyro  # slow to import

    problem = io.StringIO()
    try:
        with contextlib.redirect_stderr(problem):
            return tyro.cli(kind, args=arguments, prog=program)
    except ValueError as error:  # from a dataclass's own checks
        raise InputError(str(error)) from error
    except SystemExit as stop:
        if not stop.code:
            raise
        from niso.cli_options import first_message

        message = re.split(r" (?:Argument|For full) helptext", first_message(problem.getvalue()))[0]
        raise InputError(f"{message.rstrip('.')}; see `{program} --help`") from stop


def cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0))
