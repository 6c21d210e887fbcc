"""Options of a command from a dataclass: docstrings become help texts, and a wrong call becomes one line."""

from __future__ import annotations

import inspect
import os
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import fields, is_dataclass
from itertools import pairwise
from typing import Any, TypeVar, get_type_hints

import tyro
from tyro.conf import Positional

from niso.cli import short
from niso.cli.options import Command
from niso.errors import InputError, nearest

C = TypeVar("C")
NARROWEST = 40
"""Columns of a terminal."""
HELP_ALL = "--help-all"
"""Prints all settings where `--help` shows those that people change."""


def parse(kind: type[C], program: str, arguments: Sequence[str], default: C | None = None, about: str = "") -> C:
    """The options of a call.

    Args:
        kind: the dataclass of the options.
        program: the words of the call before its arguments, e.g. "niso resume".
        arguments: the words after them.
        default: the options that hold where no flag changes them, if not the defaults of the class.
        about: what the help says the command does, if not the docstring of the class.

    Raises:
        InputError: anything wrong with the arguments, in one line.
        SystemExit: help was asked for, and printed.
    """
    start: Any = tyro.MISSING_NONPROP if default is None else default
    words = ["--help" if word == HELP_ALL else word for word in arguments]
    about = about or inspect.getdoc(kind) or ""
    options: C = _call_tyro(kind, program, words, default=start, description=about)
    return options


def parse_command(kind: type[Command], program: str, arguments: Sequence[str]) -> Command:
    """The options of a command, none of which is in vain. Errors as in `parse` and `refuse_unread`."""
    if {"-h", "--help"} & set(arguments) and kind.main_settings:
        print(short.of_command(kind, program))
        raise SystemExit(0)
    examples = (f"{call}   # {does}" for call, does in kind.examples.items())
    options = parse(kind, program, arguments, about="\n\n".join([inspect.getdoc(kind) or "", *examples]))
    refuse_unread(named_options(kind, arguments), [options.unread()])
    return options


def parse_known(kind: type[C], program: str, arguments: Sequence[str]) -> C:
    """The options of a call that `kind` has; others are passed over. Errors as in `parse`."""
    options: C = _call_tyro(kind, program, arguments, return_unknown_args=True, add_help=False)[0]
    return options


def named_options(kind: Any, arguments: Sequence[str]) -> dict[str, str]:
    """The options that a call names: the field of each, as a path such as "head.steps", and its flag."""
    fields_of = dict(_flags(kind))
    flags = [word.partition("=")[0].replace("_", "-") for word in arguments]
    return {fields_of[flag]: flag for flag in flags if flag in fields_of}


def flags_of(kind: Any) -> dict[str, str]:
    """The flag of each field of a dataclass of options, by the field's path, such as "head.steps"."""
    return {path: flag for flag, path in reversed([*_flags(kind)])}  # of several flags the first


def refuse_unread(named: Mapping[str, str], unread: Sequence[Mapping[str, str]]) -> None:
    """Refuse options that would change nothing. Settings of presets and configuration files are not asked about.

    Args:
        named: the options that the call names, see `named_options`.
        unread: for each of the runs that the call asks for, the settings that it does not read, or groups of them, and
            why, perhaps followed by "; " and what to add for it to be read. An option is refused where no run reads it.

    Raises:
        InputError: the first such option.
    """
    for path, flag in named.items():
        reasons = [
            next((why for name, why in one.items() if path == name or path.startswith(f"{name}.")), None)
            for one in unread
        ]
        if None not in reasons:
            why, _, remedy = str(reasons[0]).partition("; add ")
            raise InputError(f"{flag} has no effect, {f'add {remedy}, or ' if remedy else ''}leave it out: {why}")


def _call_tyro(kind: type, program: str, arguments: Sequence[str], **settings: Any) -> Any:
    def refuse(event: Any) -> None:
        if line := _error_line(event, kind, program, arguments):
            raise InputError(line)

    # tyro gives its errors as data only through this hook, which is not public. Without it, or for an error that
    # `_error_line` does not know, tyro prints a message of several lines and exits with status 2.
    hook = getattr(getattr(tyro, "_errors", None), "on_parse_error", nullcontext)
    if shutil.get_terminal_size().columns < NARROWEST:  # in a few columns tyro's help never ends
        os.environ["COLUMNS"] = str(NARROWEST)
    try:
        with hook(refuse):
            return tyro.cli(kind, args=arguments, prog=program, **settings)
    except ValueError as error:  # from a dataclass's own checks
        raise InputError(str(error)) from error


def _error_line(event: Any, kind: type, program: str, arguments: Sequence[str]) -> str:
    """What is wrong with a call, from one of the events of `tyro._errors`; empty if the event is not known."""
    name, flags = type(event).__name__, [flag for flag, _ in _flags(kind)]
    argument: Any = getattr(event, "argument", None)
    flag = _name(argument) if argument else ""
    given = [word.partition("=")[0] for word in arguments if re.match(r"--?[^-\d.]", word)]  # and no negative number
    unknown = next((option for option in given if option.replace("_", "-") not in flags), None)
    if unknown and (name in ("UnrecognizedArgs", "MissingArgs") or (name == "BadValue" and argument.is_positional())):
        group, _, setting = unknown.removeprefix("--").partition(".")
        ending = f".{group}".replace("_", "-")  # of the same setting in a group
        grouped = [flag for flag in flags if not setting and flag.endswith(ending)]
        hint = nearest(f"--{setting}" if group in short.UNNAMED else unknown, flags)
        hint = f"; did you mean {' or '.join(grouped)}?" if grouped else hint
        return f"unknown option {unknown!r}{hint if 'did you mean' in hint else f'; `{program} --help` lists all'}"
    match name:
        case "UnrecognizedArgs":
            return f"unexpected argument {event.tokens[0]!r}; see `{program} --help`"
        case "MissingArgs":
            names = " and ".join(_name(missing.arg) for missing in event.missing_arguments)
            return f"`{program}` needs {names}; see `{program} --help`"
        case "MutexConflict":
            return f"{event.first_token} and {event.second_token} exclude each other: leave one out"
        case "BadValue":
            return f"{flag} needs a value"
        case "InvalidChoice":
            return f"{flag}: unknown value {event.value!r}{nearest(event.value, event.choices)}"
        case "InstantiationFailure" if "NAME=VALUE" in str(argument and argument.lowered.metavar):
            return f"{flag}: {event.message}"
        case "InstantiationFailure" if flag:
            several = str(argument.lowered.metavar).strip("[]").split()[0]
            if several in ("INT", "FLOAT") and " " in str(argument.lowered.metavar):
                return f"{flag} must be {'whole numbers' if several == 'INT' else 'numbers'}"
            words = {"INT": "a whole number", "FLOAT": "a number", "{None}": "None"}
            expected = [words.get(word, word) for word in str(argument.lowered.metavar).split("|")]
            return f"{flag} must be {' or '.join(reversed(expected))}"
        case "InstantiationFailure":
            return _with_its_group(str(event.message), arguments)
    return ""


def _with_its_group(message: str, arguments: Sequence[str]) -> str:
    """What a dataclass says of its field, with the group that it is in, as `head.` of `--head.steps`.

    tyro does not tell which group it was: of several options of that name, it is the one with the value refused.
    """
    name, got = message.partition(" ")[0], message.rpartition("got ")[2]
    options = dict[str, str]()
    for word, following in pairwise([*arguments, ""]):
        flag, equals, value = word.partition("=")
        if flag.startswith("--"):
            options[flag.lstrip("-").replace("-", "_")] = value if equals else following
    matching = [option for option in options if option.rpartition(".")[2] == name]
    if len(matching) > 1:
        matching = [option for option in matching if _equal(options[option], got)]
    return message.replace(name, matching[0], 1) if matching else message


def _equal(one: str, other: str) -> bool:
    """Whether two words are the same, or the same number."""
    try:
        return float(one) == float(other)
    except ValueError:
        return one == other


def _name(argument: Any) -> str:
    """The flag of one of tyro's arguments, or the word that stands for a positional one in the help."""
    return str(argument.lowered.metavar if argument.is_positional() else argument.lowered.name_or_flags[-1])


def _flags(kind: Any, prefix: str = "", path: str = "") -> Iterator[tuple[str, str]]:
    """All flags of a dataclass and of those inside it, each with the path of its field."""
    hints = get_type_hints(kind, include_extras=True)
    for field in fields(kind):
        name, hint, own = field.name.replace("_", "-"), hints[field.name], f"{path}{field.name}"
        type_, notes = getattr(hint, "__origin__", hint), getattr(hint, "__metadata__", ())
        if is_dataclass(type_):
            inline = any(getattr(note, "name", None) == "" for note in notes)
            yield from _flags(type_, prefix if inline else f"{prefix}{name}.", f"{own}.")
        elif Positional not in notes:
            yield f"--{prefix}{name}", own
            if type_ is bool:
                yield f"--{prefix}no-{name}", own
            for alias in (alias for note in notes for alias in getattr(note, "aliases", None) or ()):
                yield alias, own
