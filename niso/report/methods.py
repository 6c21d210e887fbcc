"""The table of an experiment's methods: ours by preset, mean ± standard error over seeds, then published values."""

from __future__ import annotations

import math
import textwrap
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
        return [key for key in self.metrics if not beside(key) and key not in self.same]

    @cached_property
    def others(self) -> list[str]:
        """Metrics that are no results."""
        return [key for key in self.metrics if beside(key) and key not in self.same]

    @cached_property
    def same(self) -> list[str]:
        """Metrics that have one value in every row, of results if not all have: they take a line and no column."""
        same = list[str]()
        for columns in arranged(self.metrics):
            alike = [key for key in columns.keys.values() if self._alike(key)]
            same += alike * (not columns.at or len(alike) == len(columns.keys))
        some = any(not beside(key) and key not in same for key in self.metrics)
        return same if some else [key for key in same if beside(key)]

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
            values, counts = {}, {}
            for head, key in columns.keys.items():
                rows = [group.estimates[key].mean for group in self.groups if key in group.estimates]
                values[head] = f"{number(rows[0])}{self._unit(key)}"
                counts[head] = f" ({len(rows)} of {len(self.groups)} rows)" if len(rows) < len(self.groups) else ""
            some = next(filter(None, counts.values()), "")
            if not columns.at:
                told += [f"{head} {value}{counts[head]}" for head, value in values.items()]
            elif len(set(values.values())) == 1:
                told.append(f"{columns.stem} {next(iter(values.values()))} at each {columns.at}{some}")
            else:
                told.append(f"{columns.stem} {', '.join(values.values())} at {columns.at} {', '.join(values)}{some}")
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
    """The table in characters; of a single method, a line for each metric.

    With a width it is what fits there: results alone, of those that depend on something the first. Where most of them
    do not fit, metrics are the rows, unless not even two configurations would stand beside each other.
    """
    if len(shown.groups) == 1:
        (group,) = shown.groups
        body = [[shown.head(key), _estimate(group, key)] for key in shown.metrics]
        quoted = [f"{key} {value}" for key, value in group.published.items() if key in shown.metrics]
        notes = [QUOTED, ", ".join(quoted)] if quoted else []
        head = f"{group.preset} · {group.method}, seeds {', '.join(map(str, group.seeds))}"
        return "\n".join([head, _aligned(body), *_wrapped(notes, width)])
    keys, notes = list(shown.metrics), list[str]()
    turned = False
    if width is not None:
        tables = arranged(shown.results)
        keys = [key for columns in tables for key in list(columns.keys.values())[: 1 if columns.at else None]]
        fitting = next((n for n in range(len(keys), 1, -1) if _fits(_lines(shown, keys[:n]), width)), 1)
        turned = 2 * fitting < len(keys) and _fitting(_across(_lines(shown, keys)), width) > 2
        left_out = 0 if turned else len(keys) - fitting
        keys = keys[: len(keys) - left_out]
        notes += [f"{left_out} more column{'s are' if left_out > 1 else ' is'} in the report"] * (left_out > 0)
        others = [f"other values of {at}" for at in dict.fromkeys(columns.at for columns in tables if columns.at)]
        others += ["validation, cost and sizes"] * bool(shown.others)
        notes += [f"In the report, too: {', '.join(others)}"] * bool(others)
        notes = [*filter(None, [shown.same_note]), *notes]
    if shown.quoted(keys):
        notes.insert(0, f"({ELSEWHERE}) {QUOTED}")
    lines = _lines(shown, keys)
    table = "\n\n".join(_turned(lines, width)) if turned and width is not None else _aligned(lines)
    return "\n".join([table, *_wrapped(notes, width)])


def _lines(shown: MethodsTable, keys: Sequence[str]) -> list[list[str]]:
    """Two lines of heads, a row for each configuration, and one for each method that something was published of."""
    lines = [["", "", ""], ["preset", "method", "seeds"]]
    for key in keys:
        first, _, rest = shown.head(key).partition("_")
        lines[0].append(first if rest else "")
        lines[1].append(rest or first)
    for group in shown.groups:
        name = f"{group.method} ({group.settings})" if group.settings else group.method
        lines.append([group.preset, name, str(len(group.runs)), *(_estimate(group, key) for key in keys)])
    for entry in shown.quoted(keys):
        lines.append([f"({ELSEWHERE})", entry.name, MISSING, *(entry.values.get(key, MISSING) for key in keys)])
    return lines


def _turned(lines: Sequence[Sequence[str]], width: int) -> list[str]:
    """Tables of the columns of these lines, as rows: one below the other where they do not fit beside each other, each
    without rows that it has no value for."""
    columns, tables = _across(lines), []
    while len(columns[0]) > 1:
        shown = max(2, _fitting(columns, width))
        cut = [column[:shown] for column in columns]
        tables.append(_aligned([*cut[:3], *(row for row in cut[3:] if set(row[1:]) != {MISSING})]))
        columns = [[column[0], *column[shown:]] for column in columns]
    return tables


def _across(lines: Sequence[Sequence[str]]) -> list[list[str]]:
    """The columns of lines of which the first two are heads, as rows."""
    above, below, *rows = lines
    heads = ("_".join(filter(None, pair)) for pair in zip(above, below, strict=True))
    return [list(column) for column in zip(heads, *rows, strict=True)]


def _wrapped(notes: Iterable[str], width: int | None) -> list[str]:
    """Notes in lines of at most this width."""
    return [line for note in notes for line in (textwrap.wrap(note, width) if width else [note])]


def _estimate(group: Group, metric: str) -> str:
    """Of how many runs it is, where not all have the metric."""
    if metric not in group.estimates:
        return MISSING
    estimate = group.estimates[metric]
    count = f" ({len(estimate.values)} of {len(group.runs)})" if len(estimate.values) < len(group.runs) else ""
    return f"{estimate}{count}"


def _aligned(lines: Sequence[Sequence[str]]) -> str:
    """Lines of columns as wide as their widest cell."""
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    padded = ("  ".join(f"{cell:<{size}}" for cell, size in zip(line, widths, strict=True)) for line in lines)
    return "\n".join(line.rstrip() for line in padded)


def _fitting(lines: Sequence[Sequence[str]], width: int) -> int:
    """How many of such columns fit."""
    ends = accumulate(max(map(len, column)) + 2 for column in zip(*lines, strict=True))
    return sum(end - 2 <= width for end in ends)


def _fits(lines: Sequence[Sequence[str]], width: int) -> bool:
    """Whether all columns fit."""
    return _fitting(lines, width) == len(lines[0])
