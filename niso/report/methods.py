"""The table of an experiment's methods: ours by preset, mean ± standard error over seeds, beside published figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, NamedTuple

from niso.report.html import MISSING, Markup, element, join, number, table, with_error
from niso.report.measured import Kind, Measured
from niso.report.seeds import rows
from niso.results import Known, Published, sources

ELSEWHERE = "published, not measured here"
"""What stands where a row has a preset if it is of ours."""


class Line(NamedTuple):
    """A row: ours has figures (rows of `niso.report.comparison_table`), and what was published of the same method."""

    preset: str
    method: str
    seeds: Sequence[Any]
    figures: Mapping[str, dict[str, Any]]
    published: Mapping[str, str]

    def mean(self, metric: str) -> str:
        """Mean ± standard error."""
        row = self.figures.get(metric)
        if row is None:
            return MISSING
        error = row["standard_error"]
        return number(row["mean"]) if error is None else with_error(row["mean"], error)


class Column(NamedTuple):
    """A figure as it was measured here, or as it is published."""

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
    def of(cls, groups: Mapping[Kind, Sequence[Measured]], known: Known, chosen: Sequence[str] = ()) -> MethodsTable:
        """From the runs of one experiment; those that are not finished are left out."""
        lines = []
        for kind, group in groups.items():
            finished = [run for run in group if run.finished]
            _, preset, method = kind
            figures = {row["metric"]: row for row in rows(kind, finished)}
            if finished:
                lines.append(Line(preset, method, [run.seed for run in finished], figures, known.beside(method)))
        presets = list(dict.fromkeys(line.preset for line in lines))

        def place(line: Line) -> tuple[int, int, int]:
            preset, method = known.place(line.preset, line.method)
            return preset, presets.index(line.preset), method

        return cls(sorted(lines, key=place), known, chosen)

    @property
    def metrics(self) -> list[str]:
        """Those that the experiment describes come first, in its order."""
        measured = {metric: None for line in self.ours for metric in line.figures}
        described = [metric for metric in self.known.descriptions if metric in measured]
        return list(self.chosen) or list(dict.fromkeys([*described, *measured]))

    @property
    def columns(self) -> list[Column]:
        """A published column follows the measured one wherever there is anything to quote."""
        quoted = {metric for entry in self.known.published for metric in entry.figures}
        pairs = ((Column(metric, False), Column(metric, True)) for metric in self.metrics)
        return [column for pair in pairs for column in pair if not column.published or column.metric in quoted]

    @property
    def elsewhere(self) -> list[Line]:
        """Published figures of methods that no row of ours has."""
        return [Line(ELSEWHERE, e.name, (), {}, e.figures) for e in self._quoted() if e.method not in self._methods]

    @property
    def sources(self) -> str:
        """Who published what is quoted, as a note below the table; empty where nothing is."""
        found = sources(self._quoted())
        words = (
            f"Figures in italics are {ELSEWHERE}: on the original data at full size, whatever the preset beside them."
        )
        return f"{words} Sources: {found}." if found else ""

    def description(self, metric: str) -> str:
        """What a figure is."""
        own = (str(line.figures[metric]["description"]) for line in self.ours if metric in line.figures)
        return next(filter(None, own), self.known.descriptions.get(metric, ""))

    @property
    def _methods(self) -> set[str]:
        return {line.method for line in self.ours}

    def _quoted(self) -> list[Published]:
        metrics = set(self.metrics)
        return [entry for entry in self.known.published if metrics & entry.figures.keys()]


def html(shown: MethodsTable) -> Markup:
    """The table, who published what it quotes, and what the figures are."""
    heads: list[object] = ["preset", "method", "seeds"]
    for metric, published in shown.columns:
        name = element("code", join(metric.split("_"), Markup("_<wbr>")))
        heads.append(element("i", "published", class_="published") if published else name)
    lines: list[list[object]] = []
    for line in [*shown.ours, *shown.elsewhere]:
        ours = bool(line.seeds)
        label = line.preset if ours else element("i", line.preset, class_="published")
        cells = [_quote(line, metric) if published else _cell(line, metric) for metric, published in shown.columns]
        lines.append([label, element("b" if ours else "i", line.method), len(line.seeds) or MISSING, *cells])
    parts = [table(heads, lines, numbers=range(2, len(heads)), class_="methods")]
    if shown.sources:
        parts.append(element("p", shown.sources, class_="note"))
    texts = [(metric, text) for metric in shown.metrics if (text := shown.description(metric))]
    items = [element("li", element("code", metric), f" {text}") for metric, text in texts]
    if items:
        parts.append(element("details", element("summary", "What the figures are"), element("ul", *items)))
    return join(parts)


def _cell(line: Line, metric: str) -> Markup:
    row = line.figures.get(metric)
    if row is None:
        return Markup(MISSING)
    count, below = len(row["values"]), list[str]()
    if count < len(line.seeds):
        below.append(f"{count} of {len(line.seeds)} runs")
    if row["worst"] is not None and count > 1:
        below.append(f"worst {number(row['worst'])} (seed {row['worst_seed']})")
    small = [Markup("<br>"), element("small", ", ".join(below))] if below else []
    return join([element("b", line.mean(metric)), *small])


def _quote(line: Line, metric: str) -> Markup:
    found = line.published.get(metric)
    return Markup(MISSING) if found is None else element("i", found, class_="published")


def text(shown: MethodsTable, width: int | None = None) -> str:
    """The table in characters, as many columns as fit in `width`; of a single method, a line for each figure."""
    if len(shown.ours) == 1:
        (line,) = shown.ours
        body = [[metric, line.mean(metric), _bracketed(line, metric, "published: ")] for metric in shown.metrics]
        return f"{line.preset} · {line.method}, seeds {', '.join(map(str, line.seeds))}\n{_aligned(body)[0]}"
    heads = [["", "", ""], ["preset", "method", "seeds"]]
    for metric, published in shown.columns:
        first, _, rest = metric.partition("_")
        heads[0].append("" if published else first if rest else "")
        heads[1].append("(published)" if published else rest or first)
    lines = [
        [
            line.preset if line.seeds else "(published)",
            line.method,
            str(len(line.seeds) or MISSING),
            *(_bracketed(line, metric) if published else line.mean(metric) for metric, published in shown.columns),
        ]
        for line in [*shown.ours, *shown.elsewhere]
    ]
    aligned, left_out = _aligned([*heads, *lines], width)
    notes = [f"(…) {ELSEWHERE}"] if shown.sources else []
    notes += [f"{left_out} more columns are in the report"] if left_out else []
    return "\n".join([aligned, *notes])


def _bracketed(line: Line, metric: str, words: str = "") -> str:
    found = line.published.get(metric)
    return "" if found is None else f"({words}{found})"


def _aligned(lines: Sequence[Sequence[str]], width: int | None = None) -> tuple[str, int]:
    """Lines of columns as wide as their widest cell, and how many columns did not fit."""
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    ends = list(accumulate(size + 2 for size in widths))
    shown = len(ends) if width is None else max(4, sum(end - 2 <= width for end in ends))
    padded = ("  ".join(f"{cell:<{size}}" for cell, size in zip(line[:shown], widths, strict=False)) for line in lines)
    return "\n".join(line.rstrip() for line in padded), max(0, len(ends) - shown)
