"""Curves of several runs in one picture: a line for each configuration, with a band of its standard error."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from niso import figures
from niso.figures import Band
from niso.report.groups import Estimate, Group
from niso.report.pictures import Picture
from niso.results import Metric


def curve_pictures(groups: Sequence[Group]) -> list[Picture]:
    """A picture for each name of a curve that a run of this experiment has.

    Seeds whose x differ have no mean: each is a line by itself.
    """
    names = dict.fromkeys(name for group in groups for run in group.runs for name in run.curves)
    return [_picture(name, groups) for name in names]


def _picture(name: str, groups: Sequence[Group]) -> Picture:
    lines = [line for group in groups for line in _lines(name, group)]
    looks = [(line.preset, line.settings) for line in lines]
    strokes, methods = list(dict.fromkeys(looks)), list(dict.fromkeys(line.method for line in lines))
    several = len({line.preset for line in lines}) > 1
    bands = []
    for line, look in zip(lines, looks, strict=True):
        curves = [run.curves[name] for run in line.runs]
        columns = zip(*(map(float, curve["y"]) for curve in curves), strict=True)
        points = [Estimate(Metric(name, ""), line.seeds, column) for column in columns]
        error = np.array([point.standard_error for point in points], dtype=float) if len(curves) > 1 else None
        label = " · ".join(filter(None, [line.preset if several else "", line.method, line.settings]))
        label += f" ({len(curves)} seeds)" if len(curves) > 1 else ""
        x, y = np.array(curves[0]["x"], dtype=float), np.array([point.mean for point in points])
        bands.append(Band(label, x, y, error, methods.index(line.method), strokes.index(look)))
    first = lines[0].runs[0].curves[name]
    drawn = figures.bands(bands, str(first.get("x_label", "x")), str(first.get("y_label", name.replace("_", " "))))
    caption = f"{name.replace('_', ' ').capitalize()}. Each line is the mean over a method's seeds"
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
