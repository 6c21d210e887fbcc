"""The report of one run: what was done, what came out, figures, training, settings, how to do it again."""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

from niso import figures
from niso.config import flat
from niso.files.writing import write_atomically
from niso.messages import say
from niso.report.groups import described
from niso.report.html import render
from niso.report.methods import QUOTED, arranged, fitting_note
from niso.report.metrics import beside
from niso.report.numbers import duration, fact
from niso.report.pictures import Picture, embed, embed_drawn
from niso.results import Known, Metric, sources
from niso.training.run import FIGURES, REPORT, SETTINGS, Run

_PLACED = {
    *("summary", "metrics", "targets", "command", "notes", "settings", "seconds_wall", "times", "changed", "tensors"),
}
"""Facts that the table of facts leaves out: they have a place of their own."""
_NOT_CURVES = {"step", "seconds"}
_NOT_TERMS = {"loss", "accuracy", "learning_rate"}
"""Curves that are no terms of the loss."""


class Entry(NamedTuple):
    """A metric with this run's value, or what was published of it, and its target; empty where there is none."""

    metric: Metric
    value: int | float | str | None = None
    target: str = ""


class Table(NamedTuple):
    """A row for each metric, by its key, and a column for each value of what metrics depend on; one if on nothing."""

    at: str
    values: list[str]
    rows: dict[str, list[Entry]]


def write_report(run: Run, known: Known) -> Path:
    """Write `report.html` into a run folder: one file, to be read from top to bottom, that loads nothing.

    The report says what an unfinished run lacks, and so does a line where log.csv is damaged. Returns its path.

    Raises:
        InputError: a JSON file of the run is damaged.
    """
    facts, entries, (_, preset, method) = run.facts, _entries(run, known), run.kind
    times: dict[str, float] = facts.get("times") or {}
    published = [entry for entry in known.published if entry.method == method]
    folder = run.settings.get("data_dir")
    data = f"data: folder {Path(str(folder)).name}" if folder else "without --data-dir"
    page = render(
        "run.html",
        run=run,
        title=run.title,
        tab=run.title if run.title == run.name else f"{run.name}: {run.title}",
        own=_own(run, known),
        summary=[text for text in str(facts.get("summary") or "").split("\n\n") if text.strip()],
        results=_tables([entry for entry in entries if not _beside(entry)]),
        others=_tables([entry for entry in entries if _beside(entry)]),
        diagnosis=(facts.get("notes") or []) * run.finished,  # otherwise of an earlier evaluation, as figures are
        fitting_note=fitting_note(entry.metric.key for entry in entries),
        published=_tables(_published(run, known)),
        published_note=f"{QUOTED} This run: preset {preset}, {data}. Source: {sources(published)}.",
        figures=[embed(file, f"{FIGURES}/{file.name}", caption) for file, caption in run.pictures * run.finished],
        training=[embed_drawn(picture) for picture in _training(run)],
        command=facts.get("command") or _command(run),
        facts={key: fact(value) for key, value in facts.items() if key not in _PLACED and value not in (None, [])}
        | ({"times": fact({part: duration(value) for part, value in times.items()})} if times else {}),
        changed=_changed(run),
        config=(run.path / SETTINGS).read_text(encoding="utf-8"),
    )
    if run.log_damage:
        say(run.log_damage)
    path = run.path / REPORT
    write_atomically(path, page)
    return path


def _own(run: Run, known: Known) -> str:
    """What a run's settings have in the place of its preset's, in words; empty where the preset is not known."""
    settings, (_, preset, method) = run.settings_of_results, run.kind
    began, config = dict(flat(known.started_from(preset, method))), settings.get("config")
    if not began or not isinstance(config, dict):
        return ""
    # a setting that there is no more has no word in it, unless it was on
    own = {
        name: value
        for name, value in flat(config)
        if (_plain(value) != _plain(began[name]) if name in began else bool(value))
    }
    told = [f"{name} {_plain(value)}" for name, value in own.items()]
    told += [f"data {Path(str(folder)).name}"] if (folder := settings.get("data_dir")) else []
    return f"Changed from {preset}: {', '.join(told)}." if told else ""


def _changed(run: Run) -> str:
    """Which lengths, and parts of batches, phases were trained with before, in words; empty where these were always the
    same."""
    changed: dict[str, Any] = run.facts.get("changed") or {}
    now = dict(flat(run.settings_of_results.get("config") or {}))
    told = {
        name: f"{name} was {', then '.join(map(_plain, before if isinstance(before, list) else [before]))}"
        + (f", now {_plain(now[name])}" if name in now else "")
        for name, before in changed.items()
    }
    sentences = []
    if lengths := [text for name, text in told.items() if not name.endswith(".accumulation")]:
        sentences.append(
            f"The length was changed in training: {'; '.join(lengths)}. Learning rates, and weights, noise and "
            "eigenvalues that go by the share of steps done, are not those of a run that knew its length from the "
            "start."
        )
    if parts := [text for name, text in told.items() if name.endswith(".accumulation")]:
        sentences.append(
            f"The parts of a batch were changed in training: {'; '.join(parts)}. Losses that compare examples see one "
            "part at a time."
        )
    return " ".join(sentences)


def _plain(value: Any) -> str:
    """A setting as text; of a path its name, and 1.0 as 1."""
    if isinstance(value, list | tuple):
        return f"({', '.join(map(_plain, value))})"
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    if isinstance(value, Path) or (isinstance(value, str) and Path(value).is_absolute()):
        return Path(value).name
    if value is None or isinstance(value, bool):
        return {None: "none", True: "on", False: "off"}[value]
    return str(value)


def _entries(run: Run, known: Known) -> list[Entry]:
    """Metrics that the run has, or that have a target."""
    metrics, values, targets = described([run], known), run.metrics, run.facts.get("targets") or {}
    wanted = {**values, **targets}
    return [
        Entry(metrics.get(key, Metric(key, "")), values.get(key), str(targets.get(key, "")))
        for key in dict.fromkeys([*metrics, *wanted])
        if key in wanted
    ]


def _beside(entry: Entry) -> bool:
    """Whether a metric is no result; what has a target is one."""
    return not entry.target and beside(entry.metric.key)


def _published(run: Run, known: Known) -> list[Entry]:
    """What others report of the run's method."""
    metrics = described([run], known)
    return [Entry(metrics.get(key, Metric(key, "")), text) for key, text in known.published_of(run.kind[2]).items()]


def _tables(entries: list[Entry]) -> list[Table]:
    """A table for each thing that metrics depend on, as "ate_skip0", and one for all others."""
    by_key = {entry.metric.key: entry for entry in entries}
    tables = list[Table]()
    for at, parts in groupby(arranged(list(by_key)), lambda columns: columns.at):
        series = {columns.stem: columns.keys for columns in parts}
        values = sorted({value for keys in series.values() for value in keys}, key=int) if at else []
        rows = {key: [by_key[key]] for key in series.get("", ())} or {
            stem: [by_key[keys[value]] if value in keys else Entry(Metric(stem, "")) for value in values]
            for stem, keys in series.items()
        }
        tables.append(Table(at, values, rows))
    return tables


def _training(run: Run) -> Iterable[Picture]:
    for phase, columns in run.log.items():
        curves = {name: values for name, values in columns.items() if name not in _NOT_CURVES}
        curves |= {name: curves.pop(name) for name in ("learning_rate",) if name in curves}  # last
        steps = f"{int(columns['step'][-1]):,}"
        caption = f"Phase “{phase}”: " + (f"{steps} steps" if run.finished else f"logged up to step {steps}")
        if "seconds" in columns:
            caption += f" in {duration(columns['seconds'][-1])}"
        caption += "; each point is the mean since the one before."
        if curves.keys() - _NOT_TERMS:
            caption += " Terms of the loss are as they are before their weights."
        drawn = figures.training_curves(curves, columns["step"])
        if logarithmic := [axes.get_title() for axes in drawn.axes if axes.get_yscale() == "log"]:
            caption += f" Logarithmic axes: {', '.join(logarithmic)}."
        yield Picture("training", caption, drawn)


def _command(run: Run) -> str:
    """The call that starts such a run, from its settings."""
    experiment = str(run.settings.get("experiment", "EXPERIMENT"))
    return shlex.join(["niso", "run", experiment, "--config", f"{run.path}/{SETTINGS}"])
