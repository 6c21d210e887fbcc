"""Values by name, as the words NAME=VALUE of a command, and dataclasses that take them in place of their fields'; and
names of registries as the choices of an option."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from functools import cache
from inspect import isclass
from math import isfinite
from typing import Annotated, Any, Literal, TypeAlias, TypeVar, cast, get_type_hints

import yaml
from tyro.conf import arg
from tyro.constructors import PrimitiveConstructorSpec

from niso.config import parse
from niso.errors import InputError, nearest
from niso.registry import Registry

T = TypeVar("T")

Value: TypeAlias = bool | int | float | str | None
FROM_DATA = {"from_data": True}
"""Metadata of a field that the data gives, as the number of channels: it is no setting."""


def from_words(words: Sequence[str]) -> dict[str, Any]:
    """Values by name from words such as "angle=30": numbers, texts, or other values of YAML.

    Raises:
        ValueError: there is none, a word has no =, its value is not YAML, or two words have one name.
    """
    if not words:
        raise ValueError("give NAME=VALUE, one or several, or leave it out")
    values = dict[str, Any]()
    for word in words:
        name, equals, text = word.partition("=")
        if not (name and equals):
            raise ValueError(f"{word!r} must be NAME=VALUE, without spaces around =")
        if name in values:
            raise ValueError(f"{name} is given twice: give it once")
        try:
            value = yaml.safe_load(text)
        except yaml.YAMLError as error:
            raise ValueError(f"{word}: {text!r} is not a value of YAML") from error
        values[name] = _number(value) if isinstance(value, str) else value
    return values


def _number(text: str) -> float | str:
    """A text, or the number that it is: to YAML 1e-3 is none."""
    try:
        return float(text)
    except ValueError:
        return text


NamedValues: TypeAlias = Annotated[
    dict[str, Value | list[Value]],
    PrimitiveConstructorSpec(
        nargs="*",
        metavar="NAME=VALUE…",
        instance_from_str=from_words,
        is_instance=lambda value: isinstance(value, dict),
        str_from_instance=lambda values: [f"{name}={value}" for name, value in values.items()],
    ),
    arg(help_behavior_hint=lambda shown: f"(default: {shown.strip('[]') or 'none'})"),
]
"""Type of a setting that holds such values."""


def names_of(registry: Registry[Any]) -> Any:
    """What makes the names that are in a registry when options are read the choices of one."""

    def names() -> Any:
        return Literal[tuple(registry)]

    def default(words: str) -> str:  # tyro gives them as a list
        return "(default: " + words.strip("[']") + ")"

    return arg(constructor_factory=names, help_behavior_hint=default)


def settable(kind: Any) -> tuple[str, ...]:
    """Settings of a dataclass: the fields with a default, but for those that the data gives."""
    fields = (field for field in dataclasses.fields(kind) if field.init and not field.metadata.get("from_data"))
    return tuple(field.name for field in fields if not _lacks_default(field))


def changed(what: str, instance: T, values: Mapping[str, Any]) -> T:
    """A dataclass's instance with values in place of its fields', checked by their types.

    Args:
        what: it is, for messages, e.g. "action affine".

    Raises:
        InputError: it has no such setting, or a value is not of the setting's type, or refused.
    """
    if not values:
        return instance
    kind: Any = type(instance)
    known = settable(kind) if dataclasses.is_dataclass(kind) else ()
    for name in values:
        if name not in known:
            problem = f"has no setting {name!r}{nearest(name, known)}" if known else "has no settings of its own"
            raise InputError(f"{what} {problem}")
    given = vars(parse(_typed(kind, tuple(values)), dict(values), what))
    for name, value in given.items():
        if isinstance(value, float) and not isfinite(value):
            raise InputError(f"{what}: {name} must be finite, got {value}")
    try:
        return cast(T, dataclasses.replace(cast(Any, instance), **given))
    except (TypeError, ValueError) as error:
        raise InputError(f"{what}: {error}") from error


@cache  # what parses a class is made once for it, and settings may be asked for in each step
def _typed(kind: Any, names: tuple[str, ...]) -> type[Any]:
    """A dataclass of some fields of another one, by their types alone."""
    hints = get_type_hints(kind)
    return dataclasses.make_dataclass("Values", [(name, hints[name]) for name in names])


def mistake(kind: Any) -> str:
    """What is wrong with a class of settings, to follow its name in a message; empty where all is well."""
    if not (isclass(kind) and dataclasses.is_dataclass(kind)):
        return " must be a dataclass"
    lacking = [field.name for field in dataclasses.fields(kind) if _lacks_default(field)]
    return f".{lacking[0]} needs a default" if lacking else ""


def _lacks_default(field: dataclasses.Field[Any]) -> bool:
    """Whether a field must be given."""
    return field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
