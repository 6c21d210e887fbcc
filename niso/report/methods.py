"""The table of an experiment's methods: ours by preset, mean ± standard error over seeds, beside published values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate

from niso.report.groups import Estimate, Group
from niso.report.numbers import MISSING
from niso.results import Known, Metric, Published, sources

ELSEWHERE = "published, not measured here"
"""What a row that is not ours has in the place of a preset."""
QUOTED = f"Values in italics are {ELSEWHERE}: on the original data at full size, whatever the preset beside them."
FITTING = (
    "equivariance_error fits the map τ to the very pair that it scores, so that a flexible τ alone makes it small; "
    "relative_map_error takes τ from another observation under the same transformation."
)


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

    @property
    def columns(self) -> list[tuple[str, bool]]:
        """Metrics, and whether as published, which follows where there is anything to quote."""
        quoted = {metric for entry in self.known.published for metric in entry.values}
        return [(key, published) for key in self.metrics for published in ([False, True] if key in quoted else [False])]

    @property
    def elsewhere(self) -> list[Published]:
        """What was published of methods that no row has."""
        methods = {group.method for group in self.groups}
        return [entry for entry in self._quoted() if entry.method not in methods]

    @property
    def sources(self) -> str:
        """Who published what is quoted, as a note below the table; empty where nothing is."""
        quoted = sources(self._quoted())
        return f"{QUOTED} Sources: {quoted}." if quoted else ""

    def metric(self, key: str) -> Metric:
        """What a metric is."""
        return next((g.estimates[key].metric for g in self.groups if key in g.estimates), Metric(key, ""))

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
    if len(shown.groups) == 1:
        (group,) = shown.groups
        quoted = {key: f"(published: {value})" for key, value in group.published.items()}
        body = [[shown.head(key), str(group.estimates[key]), quoted.get(key, "")] for key in shown.metrics]
        return f"{group.preset} · {group.method}, seeds {', '.join(map(str, group.seeds))}\n{_aligned(body)[0]}"
    heads = [["", "", ""], ["preset", "method", "seeds"]]
    for key, published in shown.columns:
        first, _, rest = shown.head(key).partition("_")
        heads[0].append("" if published else first if rest else "")
        heads[1].append("(published)" if published else rest or first)
    rows: list[tuple[list[str], Mapping[str, Estimate], Mapping[str, str]]] = []
    for group in shown.groups:
        name = f"{group.method} ({group.settings})" if group.settings else group.method
        rows.append(([group.preset, name, str(len(group.runs))], group.estimates, group.published))
    rows += [(["(published)", entry.name, MISSING], {}, entry.values) for entry in shown.elsewhere]
    for head, estimates, values in rows:
        for key, published in shown.columns:
            quote = f"({values[key]})" if key in values else ""
            head.append(quote if published else str(estimates.get(key, MISSING)))
    aligned, left_out = _aligned([*heads, *(row for row, *_ in rows)], width)
    notes = [f"(…) {ELSEWHERE}"] if shown.sources else []
    notes += [f"{left_out} more columns are in the report"] if left_out else []
    return "\n".join([aligned, *notes])


def _aligned(lines: Sequence[Sequence[str]], width: int | None = None) -> tuple[str, int]:
    """Lines of columns as wide as their widest cell, and how many columns did not fit."""
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    ends = list(accumulate(size + 2 for size in widths))
    shown = len(ends) if width is None else max(4, sum(end - 2 <= width for end in ends))
    padded = ("  ".join(f"{cell:<{size}}" for cell, size in zip(line[:shown], widths, strict=False)) for line in lines)
    return "\n".join(line.rstrip() for line in padded), max(0, len(ends) - shown)
