"""What methods, heads and spectra have in common: a setting names one of several."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar


class Part:
    """One of the parts that a setting chooses from, with settings of its own."""

    reads: ClassVar[frozenset[str]] = frozenset()
    """Settings that it reads and not all others do: names, or groups such as "vector_neurons"."""

    @classmethod
    def about(cls) -> str:
        """What it is: the first sentence of its docstring, without what stands in brackets; empty where it has none."""
        text = re.sub(r"\s*\([^)]*\)", "", " ".join((cls.__doc__ or "").split()))
        return re.split(r"(?<=\.) ", text)[0].rstrip(".")

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
    return dict.fromkeys(sorted(others), f"--{setting} is {chosen}") | parts[chosen].unread(config)
