"""The report of one run: what was done, what came out, pictures, training, settings, how to do it again."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from niso import figures
from niso.report.html import (
    MISSING,
    Markup,
    bound,
    document,
    duration,
    element,
    escape,
    fact,
    join,
    number,
    picture,
    table,
)
from niso.report.pictures import as_png
from niso.report.run import Run
from niso.training.checkpoint import write_atomically

_ELSEWHERE = {
    "summary",
    "metric_descriptions",
    "targets",
    "published",
    "command",
}  # facts with a place of their own
_SERIES = 3
"""Figures at so many values of something have a table of their own."""
_NOT_CURVES = {"step", "seconds"}


def write_report(run: Path) -> Path:
    """Write `report.html` into a run folder: one file, to be read from top to bottom, that loads nothing.

    Whatever an unfinished run lacks, the report says is missing.

    Returns:
        The path of the report.

    Raises:
        FileNotFoundError: `run` is not a run folder; says what is missing.
        InputError: a JSON file of the run is damaged.
    """
    record = Run.open(run)
    path = run / "report.html"
    page = document(
        f"{record.title} — Neural Isometries",
        element(
            "header",
            element("p", "Neural Isometries", class_="kicker"),
            element("h1", record.title),
            _summary(record),
        ),
        "" if record.finished else _unfinished(record),
        _figures(record),
        _pictures(record),
        _training(record),
        _facts(record),
        _config(record),
    )
    write_atomically(path, page.encode())
    return path


def _summary(run: Run) -> Markup:
    paragraphs = str(run.facts.get("summary") or "").split("\n\n")
    return join(element("p", text, class_="summary") for text in paragraphs if text.strip())


def _unfinished(run: Run) -> Markup:
    last = [(phase, int(columns["step"][-1])) for phase, columns in run.log.items()]
    reached = f" The log reaches step {last[-1][1]:,} of phase {last[-1][0]}." if last else " Nothing is logged yet."
    words = "This run is not finished: it has no metrics.json, so there are no final figures."
    return element("p", element("b", words), reached, class_="warning")


def _figures(run: Run) -> Markup:
    """Final figures beside their targets and what was published; described ones first."""
    descriptions, targets, published = (run.texts(key) for key in ("metric_descriptions", "targets", "published"))
    keys = list(dict.fromkeys([*descriptions, *run.metrics, *targets, *published]))
    keys = [key for key in keys if run.finished or key in targets or key in published]
    if not keys:
        return Markup("")
    series = _series(keys)
    apart = {key for stems in series.values() for columns in stems.values() for key in columns.values()}
    against = [_against(run, name, stems) for name, stems in series.items()]
    shown = [*against, _singly(run, [key for key in keys if key not in apart])]
    if keys[0] not in apart:
        shown.reverse()
    note = "“Published” figures are the original authors', not this program's." if published else ""
    return element("section", element("h2", "Figures"), *shown, element("p", note, class_="note") if note else "")


def _singly(run: Run, keys: Sequence[str]) -> Markup:
    """Figures with a line each."""
    if not keys:
        return Markup("")
    descriptions, targets, published = (
        {key: text for key, text in run.texts(kind).items() if key in keys}
        for kind in ("metric_descriptions", "targets", "published")
    )
    heads: list[object] = ["figure", "this run"]
    if targets:
        heads.append("target")
    if published:
        heads.append("published")
    rows = []
    for key in keys:
        value = run.metrics.get(key)
        row: list[object] = [element("code", key), element("b", number(value))]
        if targets:
            row.append(_target(value, targets.get(key)))
        if published:
            row.append(_stated(published.get(key)))
        rows.append([*row, element("span", descriptions.get(key, ""), class_="words")])
    return table([*heads, "what it is"], rows, numbers=range(1, len(heads)))


def _series(keys: Sequence[str]) -> dict[str, dict[str, dict[int, str]]]:
    """Figures at three values of something or more, as "ate_skip0": keys by its name, stem and value."""
    found = dict[str, dict[str, dict[int, str]]]()
    for key in keys:
        if parts := re.fullmatch(r"(.+)_([a-z]+)(\d+)", key):
            found.setdefault(parts[2], {}).setdefault(parts[1], {})[int(parts[3])] = key
    return {
        name: kept
        for name, stems in found.items()
        if (kept := {stem: columns for stem, columns in stems.items() if len(columns) >= _SERIES})
    }


def _against(run: Run, name: str, stems: dict[str, dict[int, str]]) -> Markup:
    """Figures with their targets and what was published, against what they are at."""
    descriptions, targets, published = (run.texts(key) for key in ("metric_descriptions", "targets", "published"))
    values = sorted({value for columns in stems.values() for value in columns})
    rows = list[list[object]]()
    for stem, columns in stems.items():
        cells = [columns.get(value, "") for value in values]
        figures = [element("b", number(run.metrics.get(key))) for key in cells]
        texts = [descriptions[key] for key in cells if key in descriptions]
        words = texts[0].rpartition(";")[0] or texts[0] if texts else ""  # what follows is about the value
        rows.append([join([element("code", stem), element("div", words, class_="words")]), *figures])
        if any(key in targets for key in cells):
            met = [_target(run.metrics.get(key), targets[key]) if key in targets else "" for key in cells]
            rows.append([element("small", "target"), *met])
        if any(key in published for key in cells):
            rows.append([element("small", "published"), *(_stated(published.get(key)) for key in cells)])
    return table([f"figure at {name}", *map(str, values)], rows, numbers=range(1, len(values) + 1))


def _target(value: float | None, target: Any) -> Markup:
    """A target, and whether it is met where it is a bound such as "≥ 0.95"."""
    limit = bound(target)
    if value is None or limit is None:
        return escape(_stated(target))
    verdict = "met" if limit.met(value) else "missed"
    return element("span", _stated(target), " ", element("small", verdict), class_=verdict)


def _stated(value: Any) -> str:
    """A figure of somebody else, with the digits that they gave."""
    return MISSING if value is None else str(value)


def _pictures(run: Run) -> Markup:
    shown = []
    for index, (file, caption) in enumerate(run.pictures, start=1):
        try:
            shown.append(picture(file.read_bytes(), caption, index))
        except (OSError, ValueError):
            shown.append(element("p", f"Picture {index} is missing or damaged: figures/{file.name}", class_="warning"))
    content = element("div", *shown, class_="pictures") if shown else element("p", "This run has no pictures.")
    return element("section", element("h2", "Pictures"), content)


def _training(run: Run) -> Markup:
    parts: list[Markup] = []
    for phase, columns in run.log.items():
        curves = {name: values for name, values in columns.items() if name not in _NOT_CURVES}
        curves |= {name: curves.pop(name) for name in ("learning_rate",) if name in curves}  # last
        drawn = figures.training_curves(curves, columns["step"])
        caption = f"Phase “{phase}”: {int(columns['step'][-1]):,} steps"
        if "seconds" in columns:
            caption += f" in {duration(columns['seconds'][-1])}"
        caption += "; each point is the mean since the one before."
        parts.append(picture(as_png(drawn), caption, len(run.pictures) + len(parts) + 1))
    content = element("div", *parts, class_="pictures") if parts else element("p", "This run has no log.csv to draw.")
    return element("section", element("h2", "Training"), content)


def _facts(run: Run) -> Markup:
    facts = {key: value for key, value in run.facts.items() if key not in _ELSEWHERE and value is not None}
    rows = [[key.replace("_", " "), fact(value)] for key, value in facts.items()]
    command = element("pre", element("code", run.facts.get("command") or _command(run)))
    listed = table(["fact", "value"], rows) if rows else element("p", "This run has no run.json.")
    return element("section", element("h2", "How to do it again"), command, listed)


def _command(run: Run) -> str:
    """The call that starts such a run, from its facts."""
    options = [f"--{key}={run.facts[key]}" for key in ("preset", "method", "seed") if run.facts.get(key) is not None]
    return shlex.join(["niso", "run", str(run.facts.get("experiment", "EXPERIMENT")), *options])


def _config(run: Run) -> Markup:
    body = element("pre", element("code", escape(run.config)))
    return element("section", element("details", element("summary", "All settings (config.yaml)"), body))
