"""What methods, heads and spectra have in common: a setting names one of several."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from inspect import getattr_static, signature
from typing import Any, ClassVar

from niso.checks import described
from niso.errors import InputError
from niso.named_values import changed, mistake


class Part:
    """One of the parts that a setting chooses from, with settings of its own."""

    reads: ClassVar[frozenset[str]] = frozenset()
    """Settings that it reads and not all others do: names, or groups such as "vector_neurons"."""
    chosen_by: ClassVar[str] = "method"
    """The setting that names one of several."""
    settings_class: ClassVar[type[Any] | None] = None
    """A dataclass of settings of its own, each with a default; None where it has none. They are given by
    `--method-settings NAME=VALUE…` (`--classifier-settings` of a head, `--spectrum-settings` of a spectrum)."""

    @classmethod
    def about(cls) -> str:
        """What it is: the first sentence of its docstring, without what stands in brackets; empty where it has none."""
        text = re.sub(r"\s*\([^)]*\)", "", " ".join((cls.__doc__ or "").split()))
        return re.split(r"(?<=\.) ", text)[0].rstrip(".")

    @classmethod
    def own_settings(cls, config: Any) -> Any:
        """Settings of its own in a configuration, of `settings_class`; None where it has none.

        Raises:
            InputError: it has no such setting, or a value is not of the setting's type, or refused.
        """
        values = getattr(config, f"{cls.chosen_by}_settings", {})
        default = None if cls.settings_class is None else cls.settings_class()
        return changed(f"{cls.chosen_by} {getattr(config, cls.chosen_by, cls.__name__)}", default, values)

    @classmethod
    def mistake(cls) -> str:
        """What a subclass does not say as it should, to follow its name in a message; empty where all is well."""
        if not isinstance(cls.reads, frozenset | set) or not all(isinstance(name, str) for name in cls.reads):
            return f'.reads must be a frozenset of names, as frozenset({{"mlp"}}), not {cls.reads!r}'
        if cls.settings_class is not None and (problem := mistake(cls.settings_class)):
            return f".settings_class{problem}"
        if lacking := sorted(getattr(cls, "__abstractmethods__", ())):
            return f" lacks {', '.join(lacking)}: see {cls.__mro__[1].__module__}.{cls.__mro__[1].__name__}"
        for base in reversed(cls.__mro__):
            if not base.__module__.startswith("niso."):
                continue
            for name, member in vars(base).items():
                own = getattr_static(cls, name, None)
                if not isinstance(member, classmethod) or own is member or name.startswith("_"):
                    continue
                words = list(signature(member.__get__(None, base)).parameters)
                call = f".{name} must be a classmethod of ({', '.join(words)})"
                if not isinstance(own, classmethod | staticmethod):
                    return call
                try:
                    signature(getattr(cls, name)).bind(*words)
                except TypeError:
                    return call
        return ""

    @classmethod
    def settings(cls) -> frozenset[str]:
        """Settings of `reads`, and those of parts that it chooses from."""
        return cls.reads

    @classmethod
    def available(cls, config: Any) -> bool:
        """Whether this configuration names everything that it needs."""
        return True

    @classmethod
    def unread(cls, config: Any) -> dict[str, str]:
        """Settings of this configuration that it does not read, and why, beside those that others alone read."""
        return {}


def settings_of(parts: Iterable[type[Part]]) -> frozenset[str]:
    """Settings that one of these reads, or several do."""
    return frozenset().union(*(part.reads for part in parts))


def parts_unread(setting: str, parts: Mapping[str, type[Part]], chosen: str, config: Any) -> dict[str, str]:
    """Settings of parts that are not chosen, those that the chosen one does not read, and why.

    Args:
        setting: that chooses.
        parts: those that it can choose, by name.
        chosen: one of these names.
        config: all settings.
    """
    others = settings_of(parts.values()) - parts[chosen].reads
    unread = dict.fromkeys(sorted(others), f"--{setting} is {chosen}")
    return unread | own_unread(parts[chosen], chosen) | unread_by(parts[chosen], config)


def own_unread(part: type[Part], name: str) -> dict[str, str]:
    """Settings of its own, where the part of this name has none, and why."""
    why = f"the {part.chosen_by} {name} has no settings of its own"
    return {} if part.settings_class else {f"{part.chosen_by}_settings": why}


def unread_by(part: type[Part], config: Any) -> dict[str, str]:
    """What a part says of settings that it does not read, see `Part.unread`.

    Raises:
        InputError: it gives something else.
    """
    unread = part.unread(config)
    if not isinstance(unread, dict):
        name = f"{part.__module__}.{part.__name__}"
        raise InputError(f"{name}.unread must give a dict of settings and reasons, not {described(unread)}")
    return unread
