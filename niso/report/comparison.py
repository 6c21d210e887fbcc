"""Several runs beside each other: mean ± standard error over seeds, curves, pictures, and every seed's figures."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import Any

from niso.report import methods
from niso.report.beside import side_by_side
from niso.report.curves import curve_pictures
from niso.report.html import Markup, document, element, join, number, picture, table
from niso.report.measured import Kind, Measured, grouped
from niso.report.methods import MethodsTable
from niso.report.pictures import as_png
from niso.report.seeds import rows
from niso.results import Known
from niso.training.checkpoint import write_atomically

Ask = Callable[[str], Known]
"""What is known of an experiment, by its name; see `niso.runs.comparison`."""


def nothing(experiment: str) -> Known:
    """What is known where nobody was asked."""
    return Known()


def comparison_table(runs: Sequence[Path]) -> list[dict[str, Any]]:
    """One row for each experiment, preset, method and figure of the finished runs, in order of appearance.

    Args:
        runs: run folders, or files of records.

    Returns:
        Rows with the keys "experiment", "preset", "method", "metric", "description", "mean", "standard_error"
        (of the mean, from the sample's standard deviation; None for one run), "seeds" and "values" (one a
        run), "worst" and "worst_seed" (None where neither a target nor the name tells which way is better).

    Raises:
        ValueError: there is no run.
        FileNotFoundError: a folder is not that of a run.
        InputError: a JSON file of a run, or a record, is damaged.
    """
    return [row for kind, group in _read(runs).items() for row in rows(kind, [r for r in group if r.finished])]


def comparison_text(runs: Sequence[Path], known: Ask = nothing, width: int | None = None) -> str:
    """The tables of `write_comparison` in characters, for a terminal of this width.

    Raises:
        As for `comparison_table`.
    """
    tables = [MethodsTable.of(groups, known(name)) for name, groups in _by_experiment(_read(runs)).items()]
    return "\n\n".join(methods.text(table, width) for table in tables if table.ours)


def write_comparison(runs: Sequence[Path], out: Path, known: Ask = nothing) -> Path:
    """Write the comparison of several runs as one self-contained web page.

    Runs that are not finished are named and left out of the means. Settings other than the seed in which
    the runs of one mean differ are named too.

    Args:
        runs: run folders, or files of records.
        known: says what is published, and what figures of records are.

    Returns:
        `out`.

    Raises:
        As for `comparison_table`.
    """
    groups = _read(runs)
    total = sum(map(len, groups.values()))
    numbers = count(1)
    page = document(
        "Comparison — Neural Isometries",
        element(
            "header",
            element("p", "Neural Isometries", class_="kicker"),
            element("h1", f"Comparison of {total} run{'s' if total > 1 else ''}"),
            element("p", "Mean ± standard error of the mean over seeds, then every seed.", class_="summary"),
        ),
        *(_experiment(name, part, known(name), numbers) for name, part in _by_experiment(groups).items()),
    )
    write_atomically(out, page.encode())
    return out


def _read(runs: Sequence[Path]) -> dict[Kind, list[Measured]]:
    if not runs:
        raise ValueError("there are no runs to compare: name at least one run folder")
    return grouped(map(Measured.open, runs))


def _by_experiment(groups: Mapping[Kind, list[Measured]]) -> dict[str, dict[Kind, list[Measured]]]:
    names = dict.fromkeys(experiment for experiment, _, _ in groups)
    return {name: {kind: group for kind, group in groups.items() if kind[0] == name} for name in names}


def _experiment(name: str, groups: dict[Kind, list[Measured]], known: Known, numbers: Iterator[int]) -> Markup:
    """The table of methods, curves and pictures of all, and below them each seed's figures."""
    shown = MethodsTable.of(groups, known)
    parts: list[object] = [methods.html(shown)] if shown.ours else []
    unfinished = [run.name for group in groups.values() for run in group if not run.finished]
    if unfinished:
        words = f"Left out, because not finished (no metrics.json): {', '.join(unfinished)}."
        parts.append(element("p", words, class_="warning"))
    parts += [_warning(kind, group) for kind, group in groups.items()]
    curves = [picture(as_png(p.figure), p.caption, next(numbers)) for p in curve_pictures(groups, known)]
    parts += [element("div", *curves, class_="pictures")] if curves else []
    parts.append(side_by_side(groups, known, numbers))
    several = [line for line in shown.ours if len(line.seeds) > 1]
    seeds = [_seeds((name, line.preset, line.method), groups) for line in several]
    if seeds:
        parts.append(element("details", element("summary", "Every seed"), *seeds, open=""))
    return element("section", element("h2", name), *parts)


def _seeds(kind: Kind, groups: Mapping[Kind, Sequence[Measured]]) -> Markup:
    runs = [run for run in groups[kind] if run.finished]
    keys = [row["metric"] for row in rows(kind, runs)]
    heads = ["figure", *(f"seed {'?' if run.seed is None else run.seed}" for run in runs)]
    lines = [[element("code", key), *(number(run.metrics.get(key)) for run in runs)] for key in keys]
    names = ["from", *(run.name for run in runs)]
    return join([element("h3", " · ".join(kind)), table(heads, [*lines, names], numbers=range(1, len(heads)))])


def _warning(kind: Kind, group: Sequence[Measured]) -> Markup:
    """What else than the seed tells the runs of one mean apart."""
    runs = [run for run in group if run.finished]
    differing = _differing(runs)
    if not differing:
        return Markup("")
    which = " · ".join(kind[1:])
    words = f"{which}: these runs differ in more than the seed: {', '.join(differing)}."
    return element("p", words, class_="warning")


def _differing(runs: Sequence[Measured]) -> list[str]:
    """Settings, besides the seed and the hardware, in which the runs are not alike.

    A setting that some runs do not know, being older, counts as switched off in them.
    """
    settings = [dict(_flat(run.settings)) for run in runs]
    names = dict.fromkeys(name for values in settings for name in values if name.split(".")[0] != "hardware")
    return [name for name in names if not _alike([values[name] for values in settings if name in values], len(runs))]


def _alike(values: Sequence[Any], count: int) -> bool:
    known = {json.dumps(value, default=str) for value in values}
    return len(known) == 1 and (len(values) == count or not values[0])


def _flat(value: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        for key, part in value.items():
            yield from _flat(part, f"{prefix}.{key}" if prefix else str(key))
    else:
        yield prefix, value
