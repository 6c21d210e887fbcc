"""Pictures of functions on the sphere."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
import torch
from jaxtyping import Float
from matplotlib.figure import Figure

from niso.figures.style import DIVERGING, Array, as_numpy, largest, on_grid, panels, show, styled
from niso.geometry.domains import equirectangular

PIXELS, BETWEEN = 48, 6
"""Of a sphere's diameter, and from one to the next."""
LETTER, GAP = 0.06, 0.15
"""Inches of a letter of rows' labels, and between them and the first column."""
_TURN, _TILT = math.radians(-60), math.radians(25)
_TOWARDS = np.array([math.cos(_TILT) * math.cos(_TURN), math.cos(_TILT) * math.sin(_TURN), math.sin(_TILT)])
"""The point that faces the reader, at this longitude and latitude."""
_RIGHT = np.array([-math.sin(_TURN), math.cos(_TURN), 0.0])
_UP = np.cross(_TOWARDS, _RIGHT)


@styled
def sphere_rows(
    columns: Sequence[tuple[str, Float[Array, "_points _rank"]]],
    grid: tuple[int, int],
    rows: Sequence[Sequence[int]],
    labels: Sequence[str],
    alike: bool = False,
) -> Figure:
    """Functions on a Driscoll–Healy grid as spheres seen from outside, in centred rows, column beside column.

    Each function is scaled to its own largest magnitude.

    Args:
        columns: titles and functions.
        rows: indices of the functions of every row, the same in all columns; `labels` stand beside the first column.
        alike: whether a function has the scale of that in the first column instead, whose part it is: faint where it is
            a small part.

    Raises:
        ValueError: the points do not fill the grid.
    """
    step = PIXELS + BETWEEN
    width = max(len(line) for line in rows)
    beside = GAP + LETTER * max((len(line) for label in labels for line in label.splitlines()), default=0)
    side = (10 - beside) / len(columns) / width  # inches of a sphere and its gap
    shares = [side * width + beside, *(side * width for _ in columns[1:])]
    figure, cells = panels(10, side * len(rows) + 0.5, len(columns), shares)
    scales: list[float] = []
    for axes, (title, functions) in zip(cells, columns, strict=True):
        discs = _discs(as_numpy(functions), grid)
        scales = scales if alike and scales else [largest(disc) for disc in discs]
        canvas = np.full((len(rows) * step, width * step), np.nan)
        for line, members in enumerate(rows):
            left = (width - len(members)) * step // 2
            for place, index in enumerate(members):
                x, y = left + place * step, line * step
                canvas[y : y + PIXELS, x : x + PIXELS] = discs[index] / scales[index]
        show(axes, canvas, 1.0, signed=True)
        axes.axis("off")
        axes.set_anchor("NE")  # titles at one height
        axes.set_title(title)
    cells[0].set_xlim(-beside / side * step)  # labels have room, and spheres one size in all columns
    for line, label in enumerate(labels):
        middle = (0.0, (line + 0.4) * step)
        cells[0].annotate(label, middle, (-6, 0), textcoords="offset points", ha="right", va="center", fontsize=7)
    return figure


def _discs(functions: np.ndarray, grid: tuple[int, int]) -> np.ndarray:
    """(rank, PIXELS, PIXELS): orthographic views, NaN around the sphere, interpolated as the grid is."""
    images = torch.from_numpy(np.stack([on_grid(function, grid) for function in functions.T])).double()
    line = (np.arange(PIXELS) + 0.5) * 2 / PIXELS - 1
    u, v = line[None, :, None], -line[:, None, None]
    depth = 1 - u**2 - v**2
    places = torch.from_numpy(u * _RIGHT + v * _UP + np.sqrt(depth.clip(0)) * _TOWARDS)
    discs = equirectangular.sample(images[None], places[None], "driscoll-healy")[0]
    return np.where(depth[..., 0] > 0, discs.numpy(), np.nan)


@styled
def point_spheres(
    samplings: Mapping[str, tuple[Float[Array, "_points 3"], Float[Array, "_points rank"]]], labels: Sequence[str]
) -> Figure:
    """Functions on points of the sphere, seen from outside: a panel for each sampling, a function below the other.

    Each function is scaled to its own largest magnitude, as in `sphere_rows`.

    Args:
        samplings: title → unit vectors (x, y, z), and functions at them.
        labels: of the functions, beside the first panel.
    """
    drawn = {title: (as_numpy(points), as_numpy(functions)) for title, (points, functions) in samplings.items()}
    figure, cells = panels(10, 10 / len(drawn) * len(labels) + 0.4, len(drawn))
    for axes, (title, (points, functions)) in zip(cells, drawn.items(), strict=True):
        seen = points @ _TOWARDS > 0
        x, y = points[seen] @ _RIGHT, points[seen] @ _UP
        size = min(40.0, 8_000 / len(points))  # squared points of type
        for row in range(len(labels)):
            values = functions[seen, row] / largest(functions[:, row])
            axes.scatter(x, y - 2.2 * row, size, values, cmap=DIVERGING, vmin=-1, vmax=1, linewidths=0)
        axes.set(xlim=(-1.1, 1.1), ylim=(-2.2 * len(labels) + 1.0, 1.2), aspect="equal", title=title)
        axes.axis("off")
    for row, label in enumerate(labels):
        cells[0].annotate(label, (-1.1, -2.2 * row + 1.0), fontsize=7)
    return figure
