"""The table of an experiment's methods: ours by preset, mean ± standard error over seeds, then published values."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate

from niso.report.groups import Group
from niso.report.numbers import MISSING
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
    def quoted(self) -> list[Published]:
        """What was published of the metrics shown; never in the row of a run, which may be of other data or smaller."""
        metrics = set(self.metrics)
        return [entry for entry in self.known.published if metrics & entry.values.keys()]

    @property
    def sources(self) -> str:
        """Who published what is quoted, as a note below the table; empty where nothing is."""
        return f"{QUOTED} Sources: {sources(self.quoted)}." if self.quoted else ""

    def metric(self, key: str) -> Metric:
        """What a metric is."""
        return next((g.estimates[key].metric for g in self.groups if key in g.estimates), Metric(key, ""))

    def head(self, key: str) -> str:
        """A metric's key and unit."""
        unit = self.metric(key).unit
        return f"{key} ({unit})" if unit else key


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
    for entry in shown.quoted:
        rows.append([f"({ELSEWHERE})", entry.name, MISSING, *(entry.values.get(key, MISSING) for key in shown.metrics)])
    aligned, left_out = _aligned([*heads, *rows], width)
    notes = [f"({ELSEWHERE}) {QUOTED}"] if shown.quoted else []
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
