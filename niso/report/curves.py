"""Curves of several runs in one picture: a line for each preset and method, with a band of its standard error."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from niso import figures
from niso.figures import Band
from niso.report.measured import Kind, Measured
from niso.report.pictures import Picture
from niso.report.seeds import mean, standard_error
from niso.results import Known


class _Line(NamedTuple):
    """Seeds that have the same x, or one run by itself."""

    kind: Kind
    runs: Sequence[Measured]
    alone: bool


def curve_pictures(groups: Mapping[Kind, Sequence[Measured]], known: Known) -> list[Picture]:
    """A picture for each name of a curve that a finished run of this experiment has.

    Seeds whose x differ have no mean: each is a line by itself.
    """
    names = dict.fromkeys(name for group in groups.values() for run in group if run.finished for name in run.curves)
    return [_picture(name, groups, known) for name in names]


def _picture(name: str, groups: Mapping[Kind, Sequence[Measured]], known: Known) -> Picture:
    lines = [line for kind, group in groups.items() for line in _lines(name, kind, group)]
    lines.sort(key=lambda line: known.place(*line.kind[1:]))
    presets = list(dict.fromkeys(line.kind[1] for line in lines))
    methods = list(dict.fromkeys(line.kind[2] for line in lines))
    bands = []
    for line in lines:
        _, preset, method = line.kind
        curves = [run.curves[name] for run in line.runs]
        columns = list(zip(*(map(float, curve["y"]) for curve in curves), strict=True))
        errors = [standard_error(column) for column in columns]
        error = None if len(line.runs) < 2 else np.array(errors, dtype=float)
        label = f"{preset} · {method}" if len(presets) > 1 else method
        label += f" (seed {line.runs[0].seed})" if line.alone else f" ({len(curves)} seeds)" if len(curves) > 1 else ""
        x, y = np.array(curves[0]["x"], dtype=float), np.array([mean(column) for column in columns])
        bands.append(Band(label, x, y, error, methods.index(method), presets.index(preset)))
    first = lines[0].runs[0].curves[name]
    drawn = figures.bands(bands, str(first.get("x_label", "x")), str(first.get("y_label", name.replace("_", " "))))
    caption = f"{name.replace('_', ' ').capitalize()}. A line is the mean over the seeds of a method"
    caption += ", its band the standard error." if any(band.error is not None for band in bands) else "."
    return Picture(name, caption, drawn)


def _lines(name: str, kind: Kind, group: Sequence[Measured]) -> list[_Line]:
    having = [run for run in group if run.finished and name in run.curves]
    grids = [np.array(run.curves[name]["x"], dtype=float) for run in having]
    if all(grid.shape == grids[0].shape and np.allclose(grid, grids[0], rtol=1e-3) for grid in grids):
        return [_Line(kind, having, False)] if having else []
    return [_Line(kind, [run], True) for run in having]
