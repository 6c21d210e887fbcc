"""Curves of several runs in one picture: a line for each configuration, with a band of its standard error."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from niso import figures
from niso.figures import Band
from niso.figures.style import wrapped
from niso.report.groups import Estimate, Group
from niso.report.pictures import Picture
from niso.results import Metric

PANELS = 3
"""Presets, or variants, that have a panel each; of more, all lines are in one."""


def curve_pictures(groups: Sequence[Group]) -> list[Picture]:
    """A picture for each name of a curve that a run of this experiment has.

    Seeds whose x differ have no mean: each is a line by itself.
    """
    names = dict.fromkeys(name for group in groups for run in group.runs for name in run.curves)
    return [_picture(name, groups) for name in names]


def _picture(name: str, groups: Sequence[Group]) -> Picture:
    lines = [line for group in groups for line in _lines(name, group)]
    presets, methods = (list(dict.fromkeys(getattr(line, part) for line in lines)) for part in ("preset", "method"))
    apart = 1 < len(presets) <= PANELS
    names = [" · ".join(filter(None, [line.preset * (len(presets) > PANELS), line.method])) for line in lines]
    bands = []
    by_method = len(methods) > 1 and len(presets) <= PANELS
    for number, (line, label) in enumerate(zip(lines, names, strict=True)):
        curves = [run.curves[name] for run in line.runs]
        columns = zip(*(map(float, curve["y"]) for curve in curves), strict=True)
        points = [Estimate(Metric(name, ""), line.seeds, column) for column in columns]
        error = np.array([point.standard_error for point in points], dtype=float) if len(curves) > 1 else None
        label += f" · {line.settings}" * bool(line.settings) + f" ({len(curves)} seeds)" * (len(curves) > 1)
        x, y = np.array(curves[0]["x"], dtype=float), np.array([point.mean for point in points])
        colour = methods.index(line.method) if by_method else number
        bands.append(Band(wrapped(label, 40), x, y, error, colour, line.preset * apart))
    first = lines[0].runs[0].curves[name]
    drawn = figures.bands(bands, str(first.get("x_label", "x")), str(first.get("y_label", name.replace("_", " "))))
    caption = f"{name.replace('_', ' ').capitalize()}{', of each preset' * apart}. "
    caption += "Each line is the mean over a method's seeds"
    caption += ", its band the standard error." if any(band.error is not None for band in bands) else "."
    return Picture(name, caption, drawn)


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
