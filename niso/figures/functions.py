"""Pictures of signals and of functions on points."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from niso.errors import counted
from niso.figures.curves import COLOURS
from niso.figures.style import BLUE, DIVERGING, GREY, Array, as_numpy, largest, panels, styled, wrapped
from niso.metrics import clusters


@styled
def signal_rows(
    rows: Sequence[tuple[str, Float[Array, "_count _length _channels"]]],
    places: Float[Array, " _length"] | None = None,
) -> Figure:
    """Rows of signals, a column for each, with one scale a column; the first channels, a colour each, are lines.

    Args:
        places: of the samples, ascending; by default 0, 1, ….

    Raises:
        ValueError: there is no signal.
    """
    count = max((len(values) for _, values in rows), default=0)
    if count == 0:
        raise ValueError("there are no signals to show")
    count, across = min(count, 5), _places(places, rows[0][1].shape[1])
    figure = Figure((10, 1.1 * len(rows) + 0.1))
    cells = figure.subplots(len(rows), count, squeeze=False, sharex=True, sharey="col")
    for line, (title, signals) in zip(cells, rows, strict=True):
        values = as_numpy(signals)
        for axes, signal in zip(line, values, strict=False):
            for channel, one in enumerate(signal.T[: len(COLOURS)]):
                axes.plot(across, one, color=COLOURS[channel], linewidth=1)
            axes.grid(True)
            axes.tick_params(labelsize=6)
        line[0].set_ylabel(wrapped(title, 14), rotation=0, ha="right", va="center")
    return figure


@styled
def point_rows(
    rows: Sequence[tuple[str, Float[Array, "_count _points"]]],
    points: Float[Array, "_points _dimensions"],
    across: int | None = None,
) -> Figure:
    """Functions on points as coloured dots, those of a column, or with `across` each, scaled to the largest magnitude.

    Points in space are seen from both sides: those of the upper half from above (left), the others from below.

    Args:
        rows: titles and functions: a row each, or, with `across`, one function each, so many beside one another.

    Raises:
        ValueError: there is no function.
    """
    places = as_numpy(points)
    if not rows:
        raise ValueError("there are no functions to show")
    places, sides = (_both_sides(places), 2) if have_two_sides(places) else (places, 1)
    if across is None:
        count = min(8 // sides, max(len(values) for _, values in rows))
        figure = Figure((1.25 * count * sides + 1.2, 1.25 * len(rows)))
        cells = figure.subplots(len(rows), count, squeeze=False)
        shown = [as_numpy(functions)[:count] for _, functions in rows]
        columns = ([functions[place] for functions in shown if place < len(functions)] for place in range(count))
        limits = [largest(np.stack(column)) for column in columns]
        for line, (title, _), values in zip(cells, rows, shown, strict=True):
            for axes, function, limit in zip(line, values, limits, strict=False):
                _dots(axes, places, function, limit)
            line[0].text(-0.1, 0.5, wrapped(title, 14), transform=line[0].transAxes, ha="right", va="center")
    else:
        across = max(1, across // sides)
        down = math.ceil(len(rows) / across)
        figure = Figure((1.4 * across * sides, 1.5 * down))
        for axes, (title, functions) in zip(figure.subplots(down, across, squeeze=False).flat, rows, strict=False):
            _dots(axes, places, as_numpy(functions)[0], largest(as_numpy(functions)[0]))
            axes.set_title(title, fontsize=7)
    for axes in figure.axes:
        axes.axis("off")
    return figure


def have_two_sides(points: Float[Array, "points dimensions"]) -> bool:
    """Whether points lie in space, and not in a plane z = constant."""
    return points.shape[1] > 2 and bool((points[:, 2] != points[0, 2]).any())


def _both_sides(points: np.ndarray) -> np.ndarray:
    """Places of points in space beside one another: those of the upper half, and the others as they are from below."""
    x, y, z = points[:, :3].T
    above = z >= (z.min() + z.max()) / 2
    middle, width = (x.min() + x.max()) / 2, max(np.ptp(x), np.ptp(y))
    return np.stack([np.where(above, x, middle + 1.2 * width - (x - middle)), y], axis=1)


def _dots(axes: Axes, places: np.ndarray, function: np.ndarray, limit: float) -> None:
    second = places[:, 1] if places.shape[1] > 1 else np.zeros(len(places))
    axes.scatter(
        places[:, 0], second, c=function, cmap=DIVERGING, vmin=-limit, vmax=limit, s=8, edgecolors=GREY, linewidths=0.2
    )
    axes.set_aspect("equal")


@styled
def eigenfunction_lines(
    eigenfunctions: Float[Array, "points rank"],
    eigenvalues: Float[Array, " rank"],
    places: Float[Array, " points"] | None = None,
) -> Figure:
    """The first 32 eigenfunctions of a one-dimensional domain as lines, row by row, the eigenvalue above each.

    Args:
        places: of the points, ascending; by default 0, 1, ….
    """
    functions, values = as_numpy(eigenfunctions).T[:32], as_numpy(eigenvalues)[:32]
    along = _places(places, functions.shape[1])
    across = min(4, len(functions))
    down = math.ceil(len(functions) / across)
    figure = Figure((10, 0.85 * down + 0.3))
    cells = figure.subplots(down, across, squeeze=False, sharex=True)
    for axes in cells.flat[len(functions) :]:
        axes.axis("off")
    for axes, function, value in zip(cells.flat, functions, values, strict=False):
        axes.axhline(0, color=GREY, linewidth=0.5)
        axes.plot(along, function, color=BLUE, linewidth=1, marker="." if len(function) <= 64 else None, markersize=2)
        axes.set_title(f"λ = {value:.2f}", fontsize=7)
        axes.set(yticks=[], ylim=(-1.1 * largest(function), 1.1 * largest(function)))
        axes.tick_params(labelsize=6)
    for axes in cells.flat[max(0, len(functions) - across) : len(functions)]:
        axes.tick_params(labelbottom=True)  # also above a place that is left empty
    return figure


def _places(given: Array | None, count: int) -> np.ndarray:
    return np.arange(count) if given is None else as_numpy(given)


@styled
def cluster_plot(eigenvalues: Float[Array, " rank"]) -> Figure:
    """Eigenvalues in ascending order, coloured by cluster, see `niso.metrics.clusters`."""
    values = np.sort(as_numpy(eigenvalues))
    labels = clusters(torch.from_numpy(values)).numpy()
    figure, (axes,) = panels(6, 3)
    axes.scatter(range(len(values)), values, c=[COLOURS[label % len(COLOURS)] for label in labels], s=14)
    axes.set(xlabel="eigenfunction, by ascending eigenvalue", ylabel="learned eigenvalue λ")
    axes.set_title(counted(int(labels.max()) + 1, "cluster"))
    axes.xaxis.set_major_locator(MaxNLocator("auto", integer=True, min_n_ticks=1))
    axes.grid(True)
    return figure
