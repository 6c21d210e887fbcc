"""Curves of several runs in one picture: a line for each configuration, with a band of its standard error."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations

import numpy as np

from niso import figures
from niso.figures import Band
from niso.figures.style import wrapped
from niso.report.groups import Estimate, Group
from niso.report.pictures import Picture
from niso.results import Metric

COVERED = 1e-3
"""Relative difference of two lines below which one covers the other."""
PANELS = 3
"""Presets, or variants, that have a panel each; of more, all lines are in one."""


def curve_pictures(groups: Sequence[Group]) -> list[Picture]:
    """A picture for each name of a curve that a run of this experiment has; a method has one colour in all of them.

    Seeds whose x differ have no mean: each is a line by itself.
    """
    names = dict.fromkeys(name for group in groups for run in group.runs for name in run.curves)
    lines = {name: [line for group in groups for line in _lines(name, group)] for name in names}
    labels = {name: _labels(name, lines[name]) for name in names}
    presets, methods = (list(dict.fromkeys(getattr(group, part) for group in groups)) for part in ("preset", "method"))
    by_method = len(methods) > 1 and len(presets) <= PANELS
    rows = list(dict.fromkeys(line.name for same in lines.values() for line in same))
    pictures = []
    for name, same in lines.items():
        colours = [methods.index(line.method) if by_method else rows.index(line.name) for line in same]
        alone = list(labels.values()).count(labels[name]) == 1
        pictures.append(_picture(name, same, colours, *labels[name], alone))
    return pictures


def _labels(name: str, lines: Sequence[Group]) -> tuple[str, str]:
    """What the axes of a curve say."""
    first = lines[0].runs[0].curves[name]
    return str(first.get("x_label", "x")), str(first.get("y_label", name.replace("_", " ")))


def _picture(
    name: str, lines: Sequence[Group], colours: Sequence[int], x_label: str, y_label: str, alone: bool
) -> Picture:
    """Lines in one picture; `alone` where no other has its labels."""
    presets = list(dict.fromkeys(line.preset for line in lines))
    apart = 1 < len(presets) <= PANELS
    names = [" · ".join(filter(None, [line.preset * (len(presets) > PANELS), line.method])) for line in lines]
    bands = []
    for line, label, colour in zip(lines, names, colours, strict=True):
        curves = [run.curves[name] for run in line.runs]
        columns = zip(*(map(float, curve["y"]) for curve in curves), strict=True)
        points = [Estimate(Metric(name, ""), line.seeds, column) for column in columns]
        error = np.array([point.standard_error for point in points], dtype=float) if len(curves) > 1 else None
        label += f" · {line.settings}" * bool(line.settings) + f" ({len(curves)} seeds)" * (len(curves) > 1)
        x, y = np.array(curves[0]["x"], dtype=float), np.array([point.mean for point in points])
        bands.append(Band(wrapped(label, 40), x, y, error, colour, line.preset * apart))
    drawn = figures.bands(bands, x_label, y_label, logarithmic=lines[0].runs[0].curves[name].get("logarithmic", ""))
    first = y_label[:1].upper() if y_label[:1].isascii() else y_label[:1]  # τ is no T
    caption = f"{first}{y_label[1:]} against {x_label}"
    caption += "" if alone else f" ({name.replace('_', ' ')})"
    caption += ", of each preset. " if apart else ". "
    if any(band.error is not None for band in bands):
        caption += "Each line is the mean over its seeds, its band the standard error."
    if hidden := [f"{a.label} and {b.label}" for a, b in combinations(bands, 2) if _same(a, b)]:
        caption += f" The same line: {'; '.join(hidden)}.".replace("\n", " ")
    return Picture(name, caption, drawn)


def _same(one: Band, other: Band) -> bool:
    """Whether one line lies on the other."""
    places = one.panel == other.panel and np.array_equal(one.x, other.x)
    return places and np.allclose(one.y, other.y, rtol=COVERED, equal_nan=True)


def _lines(name: str, group: Group) -> list[Group]:
    """Seeds that have the same x together, otherwise each run by itself, named by its seed."""
    having = [run for run in group.runs if name in run.curves]
    grids = [np.array(run.curves[name]["x"], dtype=float) for run in having]
    if all(grid.shape == grids[0].shape and np.allclose(grid, grids[0], rtol=1e-3) for grid in grids):
        return [replace(group, runs=having)] if having else []
    return [
        replace(group, settings=", ".join(filter(None, [group.settings, f"seed {run.seed}"])), runs=[run])
        for run in having
    ]
