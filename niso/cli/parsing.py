"""Options of a command from a dataclass: docstrings become help texts, and a wrong call becomes one line."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from types import NoneType
from typing import Annotated, Any, TypeVar, get_args, get_type_hints

import tyro
from tyro.conf import Positional, arg
from tyro.constructors import ConstructorRegistry, PrimitiveConstructorSpec, PrimitiveTypeInfo

from niso.errors import InputError, nearest

C = TypeVar("C")

RunFolder = Annotated[Path, Positional, arg(metavar="RUN")]
"""Type of an option: the run folder that a command works on."""


@dataclass(frozen=True)
class Runs:
    """Base of the options of commands that take several runs."""

    runs: Annotated[tuple[Path, ...], Positional, arg(metavar="RUN…")]
    """Run folders, or folders of them."""

    def __post_init__(self) -> None:
        if not self.runs:
            raise ValueError("the command needs one or more run folders")


def parse(kind: type[C], program: str, arguments: Sequence[str], default: C | None = None, about: str = "") -> C:
    """The options of a call.

    Args:
        kind: the dataclass of the options.
        program: the words of the call before its arguments, e.g. "niso resume".
        arguments: the words after them.
        default: the options that hold where no flag changes them; if None, the defaults of the class.
        about: what the help says the command does; if empty, the docstring of the class.

    Raises:
        InputError: anything wrong with the arguments, in one line.
        SystemExit: help was asked for, and printed.
    """
    start: Any = tyro.MISSING_NONPROP if default is None else default
    options: C = _call_tyro(kind, program, arguments, default=start, description=about or None)
    return options


def parse_known(kind: type[C], program: str, arguments: Sequence[str]) -> C:
    """The options that `kind` has, whatever else the call holds.

    Raises:
        InputError: one of these options lacks its value.
    """
    options: C = _call_tyro(kind, program, arguments, return_unknown_args=True, add_help=False)[0]
    return options


def _call_tyro(kind: type, program: str, arguments: Sequence[str], **settings: Any) -> Any:
    def refuse(event: Any) -> None:
        if line := _error_line(event, kind, program, arguments):
            raise InputError(line)

    # tyro gives its errors as data only through this hook, which is not public. Without it, or for an error that
    # `_error_line` does not know, tyro prints a message of several lines and exits with status 2.
    hook = getattr(getattr(tyro, "_errors", None), "on_parse_error", nullcontext)
    try:
        with hook(refuse):
            return tyro.cli(kind, args=arguments, prog=program, registry=_REGISTRY, **settings)
    except ValueError as error:  # from a dataclass's own checks
        raise InputError(str(error)) from error


def _error_line(event: Any, kind: type, program: str, arguments: Sequence[str]) -> str:
    """What is wrong with a call, from one of the events of `tyro._errors`; empty if the event is not known."""
    flags = list(_flags(kind))
    given = [word.partition("=")[0] for word in arguments if word.startswith("--")]
    unknown = next((flag for flag in given if flag.replace("_", "-") not in flags), None)
    match type(event).__name__:
        case "UnrecognizedArgs" | "MissingArgs" | "BadValue" if unknown:
            hint = nearest(unknown, flags)
            return f"unknown option {unknown!r}{hint if 'did you mean' in hint else f'; `{program} --help` lists all'}"
        case "UnrecognizedArgs":
            return f"unexpected argument {event.tokens[0]!r}; see `{program} --help`"
        case "MissingArgs":
            names = " and ".join(_name(missing.arg) for missing in event.missing_arguments)
            return f"`{program}` needs {names}; see `{program} --help`"
        case "BadValue":
            return f"{_name(event.argument)} needs a value"
        case "MutexConflict":
            return f"{event.first_token} and {event.second_token} exclude each other: leave one out"
        case "InvalidChoice":
            return f"{_name(event.argument)}: unknown value {event.value!r}{nearest(event.value, event.choices)}"
        case "InstantiationFailure":
            return f"{_name(event.argument)}: {event.message}" if event.argument else str(event.message)
    return ""


def _name(argument: Any) -> str:
    """The flag of one of tyro's arguments, or the word that stands for a positional one in the help."""
    return str(argument.lowered.metavar if argument.is_positional() else argument.lowered.name_or_flags[-1])


def _flags(kind: type, prefix: str = "") -> Iterator[str]:
    """All flags of a dataclass and of those inside it."""
    hints = get_type_hints(kind, include_extras=True)
    for field in fields(kind):
        name, hint = field.name.replace("_", "-"), hints[field.name]
        type_, notes = getattr(hint, "__origin__", hint), getattr(hint, "__metadata__", ())
        if Positional in notes:
            continue
        if is_dataclass(type_):
            inline = any(getattr(note, "name", None) == "" for note in notes)
            yield from _flags(type_, prefix if inline else f"{prefix}{name}.")
        else:
            yield f"--{prefix}{name}"
            if type_ is bool:
                yield f"--{prefix}no-{name}"


_REGISTRY = ConstructorRegistry()


@_REGISTRY.primitive_rule
def _number(info: PrimitiveTypeInfo) -> PrimitiveConstructorSpec[Any] | None:
    """Numbers, and numbers or None, with errors that say what a number is."""
    kinds = set(get_args(info.type) or (info.type,))
    optional = NoneType in kinds
    match kinds - {NoneType}:
        case kind if kind == {int}:
            number, noun = int, "a whole number"
        case kind if kind == {float}:
            number, noun = float, "a number"
        case _:
            return None

    def read(words: list[str]) -> int | float | None:
        if optional and words[0] == "None":
            return None
        try:
            return number(words[0])
        except ValueError:
            raise ValueError(f"{words[0]!r} is not {noun}{' or None' if optional else ''}") from None

    return PrimitiveConstructorSpec(
        nargs=1,
        metavar=f"{number.__name__.upper()}{'|None' if optional else ''}",
        instance_from_str=read,
        is_instance=lambda value: isinstance(value, (int, number)) or (optional and value is None),
        str_from_instance=lambda value: [str(value)],
    )
