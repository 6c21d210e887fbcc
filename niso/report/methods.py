"""The table of an experiment's methods: ours by preset, mean ± standard error over seeds, beside published values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, NamedTuple

from niso.report.groups import Estimate, Group
from niso.report.numbers import MISSING, number
from niso.results import Known, Metric, Published, sources

ELSEWHERE = "published, not measured here"
"""What a row that is not ours has in the place of a preset."""
QUOTED = f"Values in italics are {ELSEWHERE}: on the original data at full size, whatever the preset beside them."
FITTING = (
    "equivariance_error fits the map τ to the very pair that it scores, so that a flexible τ alone makes it small; "
    "relative_map_error takes τ from another observation under the same transformation."
)


class Line(NamedTuple):
    """A row. Ours has estimates, and what was published of the same method."""

    preset: str
    method: str
    settings: str
    seeds: Sequence[Any]
    estimates: Mapping[str, Estimate]
    published: Mapping[str, str]

    def value(self, metric: str) -> str:
        """Mean ± standard error."""
        return str(self.estimates.get(metric, MISSING))

    def remark(self, metric: str) -> str:
        """How many of several runs have the metric, if not all, and the worst of them."""
        estimate, words = self.estimates[metric], []
        count = len(estimate.values)
        if count < len(self.seeds):
            words.append(f"{count} of {len(self.seeds)} runs")
        if estimate.worst is not None and count > 1:
            worst, seed = estimate.values[estimate.worst], estimate.seeds[estimate.worst]
            words.append(f"worst {number(worst)} (seed {seed})")
        return ", ".join(words)


class Column(NamedTuple):
    """A metric as it was measured here, or as it is published."""

    metric: str
    published: bool


@dataclass(frozen=True)
class MethodsTable:
    """What is known of an experiment's methods, to be shown in one form or another."""

    ours: Sequence[Line]
    known: Known
    chosen: Sequence[str] = ()
    """Metrics to show; all where it is empty."""

    @classmethod
    def of(cls, groups: Sequence[Group], known: Known, chosen: Sequence[str] = ()) -> MethodsTable:
        """From the groups of one experiment."""
        presets = list(dict.fromkeys(group.preset for group in groups))

        def place(group: Group) -> tuple[int, int, int]:
            preset, method = known.place(group.preset, group.method)
            return preset, presets.index(group.preset), method

        lines = [
            Line(g.preset, g.method, g.settings, g.seeds, g.estimates(known), known.published_of(g.method))
            for g in sorted(groups, key=place)
        ]
        return cls(lines, known, chosen)

    @property
    def metrics(self) -> list[str]:
        """Keys; those that the experiment declares come first, in its order."""
        measured = {metric: None for line in self.ours for metric in line.estimates}
        declared = [metric.key for metric in self.known.metrics if metric.key in measured]
        return list(self.chosen) or list(dict.fromkeys([*declared, *measured]))

    @property
    def columns(self) -> list[Column]:
        """A published column follows the measured one wherever there is anything to quote."""
        quoted = {metric for entry in self.known.published for metric in entry.values}
        pairs = ((Column(metric, False), Column(metric, True)) for metric in self.metrics)
        return [column for pair in pairs for column in pair if not column.published or column.metric in quoted]

    @property
    def elsewhere(self) -> list[Line]:
        """Published values of methods that no row of ours has."""
        methods = {line.method for line in self.ours}
        return [
            Line(ELSEWHERE, entry.name, "", (), {}, entry.values)
            for entry in self._quoted()
            if entry.method not in methods
        ]

    @property
    def sources(self) -> str:
        """Who published what is quoted, as a note below the table; empty where nothing is."""
        quoted = sources(self._quoted())
        return f"{QUOTED} Sources: {quoted}." if quoted else ""

    def metric(self, key: str) -> Metric:
        """What a metric is."""
        return next((line.estimates[key].metric for line in self.ours if key in line.estimates), Metric(key, ""))

    @property
    def described(self) -> list[Metric]:
        """The metrics of which anything is said."""
        return [metric for key in self.metrics if (metric := self.metric(key)).text]

    def head(self, key: str) -> str:
        """A metric's key and unit."""
        unit = self.metric(key).unit
        return f"{key} ({unit})" if unit else key

    def _quoted(self) -> list[Published]:
        metrics = set(self.metrics)
        return [entry for entry in self.known.published if metrics & entry.values.keys()]


def fitting_note(metrics: Iterable[str]) -> str:
    """How errors obtain τ; empty where no metric is such an error."""
    return FITTING if any(key.startswith("equivariance_error") for key in metrics) else ""


def text(shown: MethodsTable, width: int | None = None) -> str:
    """The table in characters, as many columns as fit in `width`; of a single method, a line for each metric."""
    if len(shown.ours) == 1:
        (line,) = shown.ours
        body = [[shown.head(key), line.value(key), _bracketed(line, key, "published: ")] for key in shown.metrics]
        return f"{line.preset} · {line.method}, seeds {', '.join(map(str, line.seeds))}\n{_aligned(body)[0]}"
    heads = [["", "", ""], ["preset", "method", "seeds"]]
    for key, published in shown.columns:
        first, _, rest = shown.head(key).partition("_")
        heads[0].append("" if published else first if rest else "")
        heads[1].append("(published)" if published else rest or first)
    lines = [
        [
            line.preset if line.seeds else "(published)",
            f"{line.method} ({line.settings})" if line.settings else line.method,
            str(len(line.seeds) or MISSING),
            *(_bracketed(line, key) if published else line.value(key) for key, published in shown.columns),
        ]
        for line in [*shown.ours, *shown.elsewhere]
    ]
    aligned, left_out = _aligned([*heads, *lines], width)
    notes = [f"(…) {ELSEWHERE}"] if shown.sources else []
    notes += [f"{left_out} more columns are in the report"] if left_out else []
    return "\n".join([aligned, *notes])


def _bracketed(line: Line, metric: str, words: str = "") -> str:
    value = line.published.get(metric)
    return "" if value is None else f"({words}{value})"


def _aligned(lines: Sequence[Sequence[str]], width: int | None = None) -> tuple[str, int]:
    """Lines of columns as wide as their widest cell, and how many columns did not fit."""
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    ends = list(accumulate(size + 2 for size in widths))
    shown = len(ends) if width is None else max(4, sum(end - 2 <= width for end in ends))
    padded = ("  ".join(f"{cell:<{size}}" for cell, size in zip(line[:shown], widths, strict=False)) for line in lines)
    return "\n".join(line.rstrip() for line in padded), max(0, len(ends) - shown)
