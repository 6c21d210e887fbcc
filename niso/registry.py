"""Registries: names and where they are. Whatever has a name is imported when it is asked for.

An installed package adds its own by an entry point (of Python packaging) in the group that is named after the
registry's module: `least-squares = "my_package.methods:LeastSquares"` in the group "niso.methods".
"""

from __future__ import annotations

import re
from collections import UserDict, defaultdict
from collections.abc import Iterator, Mapping
from contextlib import nullcontext, suppress
from functools import cache
from importlib import import_module
from typing import Any, ClassVar, Generic, TypeVar, cast

from niso.errors import InputError, foreign, nearest
from niso.messages import say

T = TypeVar("T")

_NAME = re.compile(r"(?!all$)\w[\w.-]*")
"""Names that commands can be given; "all" stands for all of them."""


class Registry(UserDict[str, str], Generic[T]):
    """Names of things of one kind, and the full name of each class or function: a new one is one line.

    Args:
        kind: what they are, for messages.
        entries: e.g. {"niso": "niso.methods.isometry.Isometry"}.
        base: full name of the class that all are subclasses of; None where they are of no common one. What is foreign
            must have no `mistake`, if the base can tell one, see `niso.methods.part.Part`.
        group: of entry points by which installed packages add theirs; None where they cannot.

    Attributes:
        own: the entries that niso has itself.
    """

    all: ClassVar[list[Registry[Any]]] = []
    """Every registry whose module is imported."""

    def __init__(
        self, kind: str, entries: Mapping[str, str], base: str | None = None, group: str | None = None
    ) -> None:
        self.kind, self.own, self._base, self.group = kind, dict(entries), base, group
        self._known = dict(entries) | (self._installed(group) if group else {})
        super().__init__(self._known)
        self.all.append(self)

    @classmethod
    def of_kind(cls, kind: str) -> list[Registry[Any]]:
        """The registries of a kind, of those whose module is imported: methods have two."""
        return [registry for registry in cls.all if registry.kind == kind]

    def _installed(self, group: str) -> dict[str, str]:
        """Entries of installed packages. What cannot be one is left out, and a line says so."""
        points = defaultdict[str, set[str]](set)
        for point in _entry_points().select(group=group):
            points[point.name].add(point.value)
        found = {}
        for name, values in points.items():
            where = " and ".join(sorted(values))
            full = re.fullmatch(r"([\w.]+)\s*:\s*(\w+)\s*(\[.*\])?", where)
            reasons = {
                "niso has its own": name in self.own,
                "several packages have one of this name": len(values) > 1,
                'it must be "module:Name"': not full,
                "commands cannot name it": not _NAME.fullmatch(name),
            }
            if problem := next((problem for problem, holds in reasons.items() if holds), ""):
                say(f"! the {self.kind} {name!r} of an installed package ({where}) is left out: {problem}")
            elif full:
                found[name] = f"{full[1]}.{full[2]}"
        return found

    def __setitem__(self, name: str, where: object) -> None:
        """Add an entry.

        Raises:
            TypeError: it is no full name, "module.Name"; a class itself is none. Or commands cannot give the name.
        """
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise TypeError(f"commands cannot name a {self.kind} {name!r}: give letters, digits, -, . and _, not all")
        if not isinstance(where, str) or not all(where.rpartition(".")):
            remedy = 'put it in a file that can be imported, mine.py say, and give "mine.Name"'
            raise TypeError(f'{self.kind} {name!r} needs a full name, "module.Name", not {where!r}: {remedy}')
        super().__setitem__(name, where)

    def __iter__(self) -> Iterator[str]:
        """The names there are now: a module that is imported for one of them may add others."""
        return iter(list(self.data))

    def __or__(self, other: Mapping[str, str]) -> Registry[T]:  # type: ignore[override]  # of names alone
        """A registry with more entries; errors as of `__setitem__`."""
        if not isinstance(other, Mapping):
            return NotImplemented
        both = self.copy()
        both.update(other)
        return both

    def __ior__(self, other: Mapping[str, str]) -> Registry[T]:  # type: ignore[override]  # of names alone
        """Add entries; errors as of `__setitem__`."""
        self.update(other)
        return self

    @property
    def added(self) -> frozenset[str]:
        """Names that a program has added or given another meaning: other processes do not know these, as they do those
        of installed packages."""
        return frozenset(name for name, where in self.items() if self._known.get(name) != where)

    @property
    def foreign(self) -> frozenset[str]:
        """Names that are not niso's own, or have another meaning."""
        return frozenset(name for name, where in self.items() if self.own.get(name) != where)

    def reset(self) -> None:
        """Forget what a program has added or given another meaning."""
        self.data = dict(self._known)

    def find(self, name: str) -> T:
        """The thing of this name.

        Raises:
            InputError: there is none; the message names the nearest. Or the entry names nothing that there is, or
                something that is no subclass of the base, or is written wrongly.
        """
        if name not in self:
            raise InputError(f"unknown {self.kind} {name!r}{nearest(name, self)}")
        module, _, attribute = self[name].rpartition(".")
        nowhere = f"{self.kind} {name!r} is registered as {self[name]}, which does not exist"
        added = name in self.foreign
        with foreign(f"{self.kind} {name!r}: {self[name]} cannot be imported") if added else nullcontext():
            try:
                home = import_module(module)
            except ModuleNotFoundError as error:
                if f"{module}.".startswith(f"{error.name}."):
                    raise InputError(nowhere) from error
                raise
        if not hasattr(home, attribute):
            raise InputError(nowhere)
        found = getattr(home, attribute)
        if self._base is not None:
            place, _, base = self._base.rpartition(".")
            if not (isinstance(found, type) and issubclass(found, getattr(import_module(place), base))):
                raise InputError(f"{self.kind} {name!r}: {self[name]} is no subclass of {self._base}")
            if added and hasattr(found, "mistake") and (problem := found.mistake()):
                raise InputError(f"{self.kind} {name!r}: {self[name]}{problem}")
        return cast(T, found)

    def found(self) -> dict[str, T]:
        """All things by name, without entries that `find` refuses: these harm no other."""
        found = {}
        for name in self:
            with suppress(InputError):
                found[name] = self.find(name)
        return found


@cache
def _entry_points() -> Any:
    """Entry points of installed packages. Nothing of theirs is imported."""
    from importlib.metadata import entry_points  # slow to import

    return entry_points()
