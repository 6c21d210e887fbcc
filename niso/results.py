"""Figures that others published, to be quoted beside those measured here and never mixed with them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Published:
    """What others report of one method.

    Attributes:
        name: the method, as they call it.
        figures: figures by the key of the metric that they correspond to, in its unit and with the digits given,
            e.g. {"accuracy": "0.9252 ± 0.0091"}.
        source: where they stand, and what they were measured on.
        method: the method of ours that is the same; None where there is none.
    """

    name: str
    figures: Mapping[str, str]
    source: str
    method: str | None = None


@dataclass(frozen=True)
class Known:
    """What an experiment says of its figures besides the figures; any of it may be empty.

    Attributes:
        presets: in the order of a table's rows.
        methods: the same.
        descriptions: what each figure is, by its key.
    """

    presets: Sequence[str] = ()
    methods: Sequence[str] = ()
    descriptions: Mapping[str, str] = field(default_factory=dict)
    published: Sequence[Published] = ()

    def beside(self, method: str) -> Mapping[str, str]:
        """What is published of a method of ours."""
        return next((entry.figures for entry in self.published if entry.method == method), {})

    def place(self, preset: str, method: str) -> tuple[int, int]:
        """Where a preset and a method stand among the others; last where they are unknown."""
        pairs = ((self.presets, preset), (self.methods, method))
        first, second = (known.index(name) if name in known else len(known) for known, name in pairs)
        return first, second


def sources(published: Iterable[Published]) -> str:
    """Who stands for which figures: "method, method — source; method — source"."""
    names: dict[str, list[str]] = {}
    for entry in published:
        names.setdefault(entry.source, []).append(entry.name)
    return "; ".join(f"{', '.join(methods)} — {source}" for source, methods in names.items())
