"""The one style of niso's figures, and the small helpers that draw in it."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib import style
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.figure import Figure, SubFigure
from matplotlib.image import AxesImage
from matplotlib.ticker import LogLocator, NullFormatter
from torch import Tensor

Array = np.ndarray | Tensor
"""Every function takes numpy arrays, and tensors of any float type on any device."""

DIVERGING, SEQUENTIAL = "RdBu", "Blues"
BLUE, ORANGE, GREY = "#0072b2", "#d55e00", "#767676"  # Okabe and Ito's palette
WINE = "#882255"  # Tol's
RED = "#c00000"  # a warning
STYLE: dict[str, Any] = {
    "font.size": 9,
    "axes.titlesize": 10,
    "axes.labelsize": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": GREY,
    "axes.linewidth": 0.7,
    "axes.axisbelow": True,
    "figure.constrained_layout.use": True,
    "image.interpolation": "nearest",
    "xtick.labelsize": 8,
    "ytick.labelsize": 8,
    "lines.linewidth": 1.3,
    "grid.color": "#dddddd",
    "grid.linewidth": 0.6,
}

styled = style.context(["default", STYLE])
"""Decorator of what draws in this style; it leaves matplotlib's own settings as they were."""


def as_numpy(values: Any) -> np.ndarray:
    """Numbers of any device and type as numpy float64; integers stay integers."""
    if isinstance(values, Tensor):
        values = values.detach().cpu()
        values = (values.double() if values.is_floating_point() else values).numpy()
    array = np.asarray(values)
    return array.astype(np.float64) if array.dtype.kind == "f" else array


def on_grid(function: np.ndarray, grid: tuple[int, int]) -> np.ndarray:
    """A function at the points as a (height, width) image; ValueError where it has another number of points."""
    if function.size != grid[0] * grid[1]:
        raise ValueError(f"{function.size} points do not fill a grid of {grid[0]} × {grid[1]}")
    return function.reshape(grid)


def largest(values: np.ndarray) -> float:
    """Largest finite magnitude, as a scale: 1 where there is none or it is zero."""
    finite = np.abs(values[np.isfinite(values)])
    return float(finite.max()) or 1.0 if finite.size else 1.0


def panels(
    width: int | float, height: int | float, count: int = 1, shares: Sequence[int | float] | None = None
) -> tuple[Figure, list[Axes]]:
    """A figure of a size in inches, and its axes side by side; `shares` of the width, by default equal ones.

    Each panel is laid out by itself, so that a report can put one under the other where the screen is narrow.
    """
    figure = Figure((width, height))
    return figure, [part.subplots() for part in parts(figure, count, shares)]


def parts(figure: Figure, count: int, shares: Sequence[int | float] | None = None) -> list[SubFigure]:
    """Panels of a figure, see `panels`, to be filled."""
    return list(figure.subfigures(1, count, squeeze=False, width_ratios=shares)[0])


def above_and_below(part: SubFigure, above: int | float, below: int | float) -> tuple[SubFigure, SubFigure]:
    """A panel in two, of these shares of the height, e.g. for a legend below axes."""
    upper, lower = part.subfigures(2, 1, squeeze=False, height_ratios=(above, below))[:, 0]
    return upper, lower


def add_bar(image: ScalarMappable, axes: Axes, **options: Any) -> None:
    """A colour bar beside its axes, in the same panel."""
    axes.figure.colorbar(image, ax=axes, **options)


def logarithmic(axes: Axes, low: float, high: float) -> None:
    """A logarithmic vertical axis for values between these, with labels that do not collide."""
    axes.set_yscale("log")
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if high <= 1000 * low else (1,)))
    axes.yaxis.set_major_formatter("{x:g}")
    axes.yaxis.set_minor_formatter(NullFormatter())


def wrapped(text: str, width: int) -> str:
    """Text in lines of so many characters; a longer word, as a file's name, is broken."""
    return "\n".join(textwrap.fill(line, width) for line in text.splitlines())


def show(
    axes: Axes,
    values: np.ndarray,
    limit: float | None = None,
    signed: bool | None = None,
    extent: tuple[float, float, float, float] | None = None,
) -> AxesImage:
    """A matrix as an image, up to `limit` or its own largest magnitude; values that are not finite stay blank.

    Args:
        signed: whether colours diverge from zero; by default where a value is negative.
        extent: left, right, bottom and top; by default a unit for each entry.
    """
    finite = np.isfinite(values)
    shown = np.ma.array(np.where(finite, values, 0.0), mask=~finite)  # matplotlib computes with what is masked too
    limit = largest(values) if limit is None else limit
    signed = bool((shown < 0).any()) if signed is None else signed
    axes.spines[:].set_visible(True)
    colours = DIVERGING if signed else SEQUENTIAL
    return axes.imshow(shown, cmap=colours, vmin=-limit if signed else 0.0, vmax=limit, extent=extent)
