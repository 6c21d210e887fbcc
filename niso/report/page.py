"""The report of one run: what was done, what came out, figures, training, settings, how to do it again."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from niso import figures
from niso.files import write_atomically
from niso.report.groups import described
from niso.report.html import render
from niso.report.methods import fitting_note
from niso.report.numbers import bound, duration, fact, number
from niso.report.pictures import Picture, embed, embed_drawn
from niso.results import Known, Metric, sources
from niso.training.run import Run

_ELSEWHERE = {"summary", "metrics", "metric_descriptions", "targets", "command", "config"}
"""Facts with a place of their own."""
_SERIES = 3
"""A metric at so many values of something has a row for all of them."""
_NOT_CURVES = {"step", "seconds"}
_PUBLISHED = (
    "Published values are other authors', measured on the original data at full size, whatever this run's preset."
)


@dataclass(frozen=True)
class Entry:
    """A metric with this run's value, its target, and what was published; empty where there is none."""

    metric: Metric
    value: int | float | None
    target: str
    published: str

    @property
    def number(self) -> str:
        return number(self.value)

    @property
    def unit(self) -> str:
        return "" if self.value is None else self.metric.unit

    @property
    def verdict(self) -> str:
        """Whether a target that is a bound is met."""
        limit = bound(self.target)
        return "" if limit is None or self.value is None else "met" if limit.met(self.value) else "missed"


@dataclass(frozen=True)
class Single:
    """A table with a row for each metric."""

    entries: list[Entry]
    at: str = ""


@dataclass(frozen=True)
class Row:
    """A metric at several values of something."""

    stem: str
    text: str
    unit: str
    entries: list[Entry]


@dataclass(frozen=True)
class Series:
    """A table with a row for each metric and a column for each value of what it depends on."""

    at: str
    values: list[int]
    rows: list[Row]


def write_report(run: Run, known: Known | None = None) -> Path:
    """Write `report.html` into a run folder: one file, to be read from top to bottom, that loads nothing.

    The report says what an unfinished run lacks.

    Args:
        known: what the experiment says of its results, e.g. what was published.

    Returns:
        The path of the report.

    Raises:
        InputError: a JSON file of the run is damaged.
    """
    known = known or Known()
    facts = run.facts
    entries = _entries(run, known)
    published = [p for p in known.published if p.method == run.kind[2]] if any(e.published for e in entries) else []
    page = render(
        "run.html",
        run=run,
        title=run.title,
        summary=[text for text in str(facts.get("summary") or "").split("\n\n") if text.strip()],
        reached=_reached(run),
        results=_tables(entries),
        notes=[
            *filter(None, [fitting_note(entry.metric.key for entry in entries)]),
            *([f"{_PUBLISHED} Source: {sources(published)}."] if published else []),
        ],
        figures=[embed(file, f"figures/{file.name}", caption) for file, caption in run.pictures],
        training=[embed_drawn(picture) for picture in _training(run)],
        command=facts.get("command") or _command(run),
        facts={key: fact(value) for key, value in facts.items() if key not in _ELSEWHERE and value is not None},
        config=(run.path / "config.yaml").read_text(encoding="utf-8"),
    )
    path = run.path / "report.html"
    write_atomically(path, page)
    return path


def _reached(run: Run) -> str:
    last = [(phase, int(columns["step"][-1])) for phase, columns in run.log.items()]
    return f"The log reaches step {last[-1][1]:,} of phase {last[-1][0]}." if last else "Nothing is logged yet."


def _entries(run: Run, known: Known) -> list[Entry]:
    """Metrics that the run has, that have a target or that were published."""
    metrics, values, targets = described(run, known), run.metrics, run.targets
    published = known.published_of(run.kind[2])
    keys = [
        key
        for key in dict.fromkeys([*metrics, *values, *targets, *published])
        if key in {*values, *targets, *published}
    ]
    return [
        Entry(
            metrics.get(key, Metric(key, "")), values.get(key), str(targets.get(key, "")), str(published.get(key, ""))
        )
        for key in keys
    ]


def _tables(entries: list[Entry]) -> list[Single | Series]:
    """A table for each thing that metrics depend on, as "ate_skip0", and one for all others."""
    depending: dict[str, dict[str, dict[int, Entry]]] = {}
    for entry in entries:
        if parts := re.fullmatch(r"(.+)_([a-z]+)(\d+)", entry.metric.key):
            depending.setdefault(parts[2], {}).setdefault(parts[1], {})[int(parts[3])] = entry
    tables: list[Single | Series] = []
    apart: set[str] = set()
    for name, stems in depending.items():
        kept = {stem: row for stem, row in stems.items() if len(row) >= _SERIES}
        values = sorted({value for row in kept.values() for value in row})
        rows = [_row(stem, [row.get(value) for value in values]) for stem, row in kept.items()]
        tables += [Series(name, values, rows)] if rows else []
        apart |= {entry.metric.key for row in kept.values() for entry in row.values()}
    single = [entry for entry in entries if entry.metric.key not in apart]
    if single:
        tables.insert(len(tables) if entries[0].metric.key in apart else 0, Single(single))
    return tables


def _row(stem: str, entries: list[Entry | None]) -> Row:
    metrics = [entry.metric for entry in entries if entry is not None]
    text = metrics[0].text.rpartition(";")[0] or metrics[0].text  # what follows is about the value
    empty = Entry(Metric(stem, ""), None, "", "")
    return Row(stem, text, metrics[0].unit, [entry or empty for entry in entries])


def _training(run: Run) -> Iterable[Picture]:
    for phase, columns in run.log.items():
        curves = {name: values for name, values in columns.items() if name not in _NOT_CURVES}
        curves |= {name: curves.pop(name) for name in ("learning_rate",) if name in curves}  # last
        caption = f"Phase “{phase}”: {int(columns['step'][-1]):,} steps"
        if "seconds" in columns:
            caption += f" in {duration(columns['seconds'][-1])}"
        caption += "; each point is the mean since the one before."
        yield Picture("training", caption, figures.training_curves(curves, columns["step"]))


def _command(run: Run) -> str:
    """The call that starts such a run, from its settings."""
    settings: dict[str, Any] = run.settings
    options = [f"--{key}={settings[key]}" for key in ("preset", "method", "seed") if settings.get(key) is not None]
    return shlex.join(["niso", "run", str(settings.get("experiment", "EXPERIMENT")), *options])
