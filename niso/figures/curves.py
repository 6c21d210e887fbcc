"""Curves of several runs in one figure, each with a band of its standard error."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from jaxtyping import Float
from matplotlib.figure import Figure

from niso.figures.style import BLUE, GREY, ORANGE, Array, as_numpy, panels, styled

COLOURS = (BLUE, ORANGE, "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000", GREY, "#8b5a2b", "#332288")
"""Okabe and Ito's palette and two more: an experiment may have nine methods."""
STROKES = ("-", "--", ":", "-.")


class Band(NamedTuple):
    """A curve and its standard error, None where there is none."""

    label: str
    x: Float[Array, " points"]
    y: Float[Array, " points"]
    error: Float[Array, " points"] | None = None
    colour: int = 0
    """Number of its colour; curves that belong together share one."""
    stroke: int = 0
    """Number of its line style: solid, dashed, dotted, mixed."""


@styled
def bands(curves: Sequence[Band], x_label: str, y_label: str) -> Figure:
    """All curves in one panel, each with a band of one standard error, and a legend.

    Raises:
        ValueError: there is no curve.
    """
    if not curves:
        raise ValueError("there are no curves to draw")
    figure, (axes,) = panels(10, 4.4)
    for curve in curves:
        x, y = as_numpy(curve.x), as_numpy(curve.y)
        colour, stroke = COLOURS[curve.colour % len(COLOURS)], STROKES[curve.stroke % len(STROKES)]
        marker = "o" if len(x) <= 40 else None
        axes.plot(x, y, color=colour, linestyle=stroke, marker=marker, markersize=3, label=curve.label)
        if curve.error is not None:
            error = as_numpy(curve.error)
            axes.fill_between(x, y - error, y + error, color=colour, alpha=0.2, linewidth=0)
    axes.set(xlabel=x_label, ylabel=y_label)
    axes.grid(True)
    figure.legend(loc="outside right upper", frameon=False, fontsize=9)
    return figure
