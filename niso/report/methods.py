"""The table of an experiment's methods: ours by preset, mean ± standard error over seeds, then published values."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from niso.report.groups import Group
from niso.report.metrics import beside, depending
from niso.report.numbers import number
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
