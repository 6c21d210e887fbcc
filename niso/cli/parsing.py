"""Options of a command from a dataclass: help texts from its docstrings, and errors in one line."""

from __future__ import annotations

import contextlib
import io
import re
from typing import TypeVar

from niso.errors import InputError, nearest

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
        message = re.split(r" (?:Argument|For full) helptext", first_message(problem.getvalue()))[0]
        message = message.removeprefix(f"{kind.__name__}: ")  # tyro's name for a dataclass's own checks
        raise InputError(f"{message.rstrip('.')}; see `{program} --help`") from stop


def first_message(text: str) -> str:
    """The sentence of tyro's boxed error message, in one line."""
    lines = [re.sub(r"[─━│╭╮╰╯]", "", line).strip() for line in text.splitlines()]
    rules = [index for index, line in enumerate(lines) if set(line) == {"-"}] or [0]
    end = rules[1] if len(rules) > 1 else len(lines)
    message = " ".join(line for line in lines[rules[0] + 1 : end] if line)
    choice = re.match(r"(?:.*: )?invalid choice '(.*)' for argument '(.*)'\. Expected one of \((.*)\)", message)
    if choice:
        name, flag, known = choice.groups()
        hint = nearest(name, re.findall(r"'([^']*)'", known))
        return f"{flag}: unknown value {name!r}{hint}"
    message = re.sub(r"invalid literal for int\(\) with base 10: ('.*')", r"\1 is not a whole number", message)
    message = re.sub(r"could not convert string to float: ('.*')", r"\1 is not a number", message)
    return message.removeprefix("Error parsing ").rstrip(".") or "the call cannot be understood"
