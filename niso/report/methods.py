"""The table of an experiment's methods: ours by preset, mean ± standard error over seeds, then published values."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import NamedTuple

from niso.report.groups import Group
from niso.report.metrics import beside, depending
from niso.report.numbers import MISSING, number
from niso.results import Known, Metric, Published, sources

ELSEWHERE = "published"
"""What a row that is not ours has in the place of a preset."""
QUOTED = (
    "Published by others, on the original data at full size: no comparison with a smaller preset or with other data."
)
FITTING = (
    "equivariance_error fits the map τ to the very pair that it scores, so that a flexible τ alone makes it small; "
    "relative_map_error takes τ from another observation under the same transformation."
)


class Columns(NamedTuple):
    """Metrics that are the columns of one table."""

    keys: Mapping[str, str]
    """The metric of each column by the column's head."""
    stem: str = ""
    """The metric that all columns have, at different values; empty where they are different metrics."""
    at: str = ""
    """What these are values of."""

    def about(self, metric: Metric) -> str:
        """What a metric of these columns is, without the value that it is at."""
        return (self.at and metric.text.rpartition(";")[0]) or metric.text


@dataclass(frozen=True)
class MethodsTable:
    """What is known of an experiment's methods, to be shown in one form or another; a row is a group."""

    groups: Sequence[Group]
    known: Known
    chosen: Sequence[str] = ()
    """Metrics to show; all where it is empty."""

    @property
    def metrics(self) -> list[str]:
        """Keys; those that the experiment declares come first, in its order."""
        measured = {metric: None for group in self.groups for metric in group.estimates}
        declared = [metric.key for metric in self.known.metrics if metric.key in measured]
        return list(self.chosen) or list(dict.fromkeys([*declared, *measured]))

    @cached_property
    def results(self) -> list[str]:
        """Metrics that tell rows apart."""
        apart = {*self.others, *self.same}
        return [key for key in self.metrics if key not in apart]

    @property
    def others(self) -> list[str]:
        """Metrics that are no results."""
        return [key for key in self.metrics if beside(key)]

    @cached_property
    def same(self) -> list[str]:
        """Results that have one value in every row, if not all have: they take a line and no column."""
        results = [key for key in self.metrics if not beside(key)]
        same = list[str]()
        for columns in arranged(results):
            alike = [key for key in columns.keys.values() if self._alike(key)]
            same += alike * (not columns.at or len(alike) == len(columns.keys))
        return same if len(same) < len(results) else []

    def _alike(self, key: str) -> bool:
        """Whether a metric has one value in most rows and no other in any."""
        rows = [group.estimates[key].values for group in self.groups if key in group.estimates]
        if len(self.groups) == 1 or 2 * len(rows) <= len(self.groups) or self.quoted([key]):
            return False
        return all(math.isclose(value, rows[0][0], rel_tol=1e-6) for row in rows for value in row)

    @property
    def same_note(self) -> str:
        """The values of these, in words; empty where there are none."""
        told = []
        for columns in arranged(self.same):
            values = {}
            for head, key in columns.keys.items():
                rows = [group.estimates[key].mean for group in self.groups if key in group.estimates]
                some = f" ({len(rows)} of {len(self.groups)} rows)" if len(rows) < len(self.groups) else ""
                values[head] = f"{number(rows[0])}{self._unit(key)}{some}"
            if not columns.at:
                told += [f"{head} {value}" for head, value in values.items()]
            elif len(set(values.values())) == 1:
                told.append(f"{columns.stem} {next(iter(values.values()))} at each {columns.at}")
            else:
                told.append(f"{columns.stem} {', '.join(values.values())} at {columns.at} {', '.join(values)}")
        return f"The same in every row: {'; '.join(told)}." if told else ""

    @property
    def described(self) -> dict[str, tuple[Metric, str]]:
        """What metrics are, by their keys; one for all values of what they depend on."""
        told = {}
        for columns in arranged(self.metrics):
            keys = list(columns.keys.values())
            for key in keys[:1] if columns.at else keys:
                metric = self.metric(key)
                told[columns.stem or key] = metric, columns.about(metric)
        return {key: (metric, text) for key, (metric, text) in told.items() if text}

    def _unit(self, key: str) -> str:
        unit = self.metric(key).unit
        return unit if unit == "°" else f" {unit}" if unit else ""

    def quoted(self, metrics: Iterable[str]) -> list[Published]:
        """What was published of metrics; never in the row of a run, which may be of other data or smaller."""
        keys = set(metrics)
        return [entry for entry in self.known.published if keys & entry.values.keys()]

    @property
    def sources(self) -> str:
        """Who published what is quoted, as a note below the table; empty where nothing is."""
        quoted = self.quoted(self.metrics)
        return f"{QUOTED} Sources: {sources(quoted)}." if quoted else ""

    def metric(self, key: str) -> Metric:
        """What a metric is."""
        return next((g.estimates[key].metric for g in self.groups if key in g.estimates), Metric(key, ""))

    def head(self, key: str) -> str:
        """A metric's key and unit."""
        unit = self.metric(key).unit
        return f"{key} ({unit})" if unit else key


def arranged(keys: Sequence[str]) -> list[Columns]:
    """Metrics as tables: one for each that depends on something, one for all others; that of the first key first."""
    series = [
        Columns({str(value): key for value, key in values.items()}, stem, at)
        for at, stems in depending(keys).items()
        for stem, values in stems.items()
    ]
    apart = {key for columns in series for key in columns.keys.values()}
    single = [Columns({key: key for key in keys if key not in apart})] * (len(apart) < len(keys))
    return [*series, *single] if keys and keys[0] in apart else [*single, *series]


def fitting_note(metrics: Iterable[str]) -> str:
    """How errors obtain τ; empty where no metric is such an error."""
    return FITTING if any(key.startswith("equivariance_error") for key in metrics) else ""


def text(shown: MethodsTable, width: int | None = None) -> str:
    """The table in characters, as many columns as fit in `width`; of a single method, a line for each metric."""
    if len(shown.groups) == 1:
        (group,) = shown.groups
        body = [[shown.head(key), _estimate(group, key)] for key in shown.metrics]
        quoted = [f"{key} {value}" for key, value in group.published.items() if key in shown.metrics]
        notes = [f"{QUOTED}\n{', '.join(quoted)}"] if quoted else []
        return "\n".join(
            [f"{group.preset} · {group.method}, seeds {', '.join(map(str, group.seeds))}", _aligned(body)[0], *notes]
        )
    heads = [["", "", ""], ["preset", "method", "seeds"]]
    for key in shown.metrics:
        first, _, rest = shown.head(key).partition("_")
        heads[0].append(first if rest else "")
        heads[1].append(rest or first)
    rows = []
    for group in shown.groups:
        name = f"{group.method} ({group.settings})" if group.settings else group.method
        cells = (_estimate(group, key) for key in shown.metrics)
        rows.append([group.preset, name, str(len(group.runs)), *cells])
    for entry in shown.quoted(shown.metrics):
        rows.append([f"({ELSEWHERE})", entry.name, MISSING, *(entry.values.get(key, MISSING) for key in shown.metrics)])
    aligned, left_out = _aligned([*heads, *rows], width)
    notes = [f"({ELSEWHERE}) {QUOTED}"] if shown.quoted(shown.metrics) else []
    notes += [f"{left_out} more column{'s are' if left_out > 1 else ' is'} in the report"] if left_out else []
    return "\n".join([aligned, *notes])


def _estimate(group: Group, metric: str) -> str:
    """Of how many runs it is, where not all have the metric."""
    if metric not in group.estimates:
        return MISSING
    estimate = group.estimates[metric]
    count = f" ({len(estimate.values)} of {len(group.runs)})" if len(estimate.values) < len(group.runs) else ""
    return f"{estimate}{count}"


def _aligned(lines: Sequence[Sequence[str]], width: int | None = None) -> tuple[str, int]:
    """Lines of columns as wide as their widest cell, and how many columns did not fit."""
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    ends = list(accumulate(size + 2 for size in widths))
    shown = len(ends) if width is None else max(4, sum(end - 2 <= width for end in ends))
    padded = ("  ".join(f"{cell:<{size}}" for cell, size in zip(line[:shown], widths, strict=False)) for line in lines)
    return "\n".join(line.rstrip() for line in padded), max(0, len(ends) - shown)
