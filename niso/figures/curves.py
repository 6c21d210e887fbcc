"""Curves of several runs in one figure, each with a band of its standard error."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from niso.figures.style import (
    BLUE,
    ORANGE,
    WINE,
    Array,
    above_and_below,
    as_numpy,
    largest,
    logarithmic,
    panels,
    parts,
    styled,
)

COLOURS = (BLUE, ORANGE, "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000", WINE)
"""Okabe and Ito's palette without its yellow, and Tol's wine."""
STROKES: tuple[Any, ...] = ("-", "--", ":", "-.", (0, (7, 2, 1, 2, 1, 2)), (0, (1, 4)), (0, (9, 4)))
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
ALL_MARKED, MARKS = 40, 12
"""Every point of a line of up to so many has a marker; of a longer one, so many have."""
SMALLEST = 1e-6
"""What is less, of the largest, is nothing but rounding."""
FAINT = 1e-4
"""Where logarithmic axes of curves begin, of the largest."""
WHOLE = (1, 2, 5, 10)
"""Steps between whole numbers on an axis."""


class Band(NamedTuple):
    """A curve and its standard error, None where there is none."""

    label: str
    x: Float[Array, " points"]
    y: Float[Array, " points"]
    error: Float[Array, " points"] | None = None
    colour: int = 0
    """Number of its colour; curves that belong together share one."""
    panel: str = ""
    """Title of the panel that it is in."""


@styled
def bands(curves: Sequence[Band], x_label: str, y_label: str, logarithmic: str = "") -> Figure:
    """Curves with a band of one standard error each, a panel for each title, in one scale, each with its legend below.

    The lines of a panel, up to 56 of a colour, differ in colour, marker or stroke.

    Args:
        logarithmic: the axes that are so: y or xy. What is less than `FAINT` of the largest y is below that axis.

    Raises:
        ValueError: there is no curve.
    """
    if not curves:
        raise ValueError("there are no curves to draw")
    titles = list(dict.fromkeys(curve.panel for curve in curves))
    columns = max(1, 3 // len(titles))
    lines = max(_lines([curve.label for curve in curves if curve.panel == title], columns) for title in titles)
    figure = Figure((10, 3.6 + (below := 0.2 * lines + 0.25)))
    halves = [above_and_below(part, 3.6, below) for part in parts(figure, len(titles))]
    panels_of_titles = [above.subplots() for above, _ in halves]
    first = panels_of_titles[0]
    for axes, title in zip(panels_of_titles, titles, strict=True):
        if axes is not first:  # before it is drawn on, or it would take the first one's limits
            axes.sharex(first)
            axes.sharey(first)
        looks: set[tuple[int, int, int]] = set()
        for curve in (curve for curve in curves if curve.panel == title):
            look = next((look for look in _looks(curve.colour) if look not in looks), (0, 0, 0))
            looks.add(look)
            _draw(axes, curve, look)
        axes.set(xlabel=x_label, ylabel=y_label, title=title)
        axes.grid(True)
    positive = any((as_numpy(curve.y) > 0).any() for curve in curves)  # or there is nothing to draw so
    for axis in logarithmic if positive else "":
        first.set(**{f"{axis}scale": "log"})
    if "y" in logarithmic and positive:
        first.set_ylim(bottom=FAINT * max(largest(as_numpy(curve.y)) for curve in curves))
    if "x" not in logarithmic and all((as_numpy(curve.x) % 1 == 0).all() for curve in curves):
        first.xaxis.set_major_locator(MaxNLocator("auto", steps=WHOLE, integer=True, min_n_ticks=1))
    for (_, lower), axes in zip(halves, panels_of_titles, strict=True):
        lower.legend(*axes.get_legend_handles_labels(), loc="upper center", ncols=columns, frameon=False, fontsize=9)
    return figure


@styled
def decay(values: Float[Array, " count"], x_label: str, y_label: str) -> Figure:
    """Sizes in descending order, numbered from 1, on a logarithmic scale; what is nothing but rounding is below it."""
    sizes = as_numpy(values)
    figure, (axes,) = panels(5.5, 3.4)
    high = largest(sizes)
    low = min(0.1 * high, sizes[sizes > SMALLEST * high].min(initial=high))
    _draw(axes, Band("", np.arange(1, len(sizes) + 1), sizes.clip(np.finfo(float).tiny)), (0, 0, 0))
    axes.set(xlabel=x_label, ylabel=y_label, xlim=(0.5, len(sizes) + 0.5))
    logarithmic(axes, low, high)
    axes.set_ylim(0.7 * low, 1.4 * high)
    axes.xaxis.set_major_locator(MaxNLocator("auto", steps=WHOLE, integer=True, min_n_ticks=1))
    axes.grid(True)
    return figure


def _lines(labels: Sequence[str], columns: int) -> int:
    """Lines of text of the longest column of a legend, whose first columns have one label more where need be."""
    return max(sum(1 + label.count("\n") for label in column) for column in np.array_split(labels, columns))


def _looks(colour: int) -> Iterator[tuple[int, int, int]]:
    """Colour, stroke and marker, by number: a first choice for this number of a colour, and others.

    The first choices of the first colours differ in their marker, too.
    """
    cycle, colour = divmod(colour, len(COLOURS))
    for number in range(len(STROKES) * len(MARKERS)):
        marker = colour + cycle + number // len(STROKES)
        yield colour, (cycle + number) % len(STROKES), marker % len(MARKERS)


def _draw(axes: Axes, curve: Band, look: tuple[int, int, int]) -> None:
    x, y = as_numpy(curve.x), as_numpy(curve.y)
    colour = COLOURS[look[0]]
    axes.plot(
        x,
        y,
        color=colour,
        linestyle=STROKES[look[1]],
        marker=MARKERS[look[2]],
        markevery=1 if len(x) <= ALL_MARKED else math.ceil(len(x) / MARKS),
        markersize=4,
        label=curve.label,
    )
    if curve.error is not None:
        error = as_numpy(curve.error)
        axes.fill_between(x, y - error, y + error, color=colour, alpha=0.2, linewidth=0)
