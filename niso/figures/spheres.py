"""Pictures of functions on the sphere."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
import torch
from jaxtyping import Float, Int
from matplotlib.figure import Figure

from niso.figures.style import (
    BLUE,
    DIVERGING,
    GREY,
    ORANGE,
    Array,
    add_bar,
    as_numpy,
    largest,
    on_grid,
    panels,
    show,
    styled,
)
from niso.geometry.domains import equirectangular

LETTER, GAP = 0.06, 0.15
"""Inches of a letter of rows' labels, and between them and the first column."""
_VIEW = (math.radians(-60), math.radians(25))  # longitude and latitude that face the reader


@styled
def sphere_rows(
    columns: Sequence[tuple[str, Float[Array, "_points _rank"]]],
    grid: tuple[int, int],
    rows: Sequence[Sequence[int]],
    labels: Sequence[str],
    pixels: int = 48,
) -> Figure:
    """Functions on a Driscoll–Healy grid as spheres seen from outside, in centred rows, column beside column.

    Each function is scaled to its own largest magnitude.

    Args:
        columns: titles and functions.
        rows: indices of the functions of every row, the same in all columns; `labels` stand beside the first column.

    Raises:
        ValueError: the points do not fill the grid.
    """
    step = pixels + max(2, pixels // 8)
    width = max(len(line) for line in rows)
    beside = GAP + LETTER * max((len(line) for label in labels for line in label.splitlines()), default=0)
    side = (10 - beside) / len(columns) / width  # inches of a sphere and its gap
    shares = [side * width + beside, *(side * width for _ in columns[1:])]
    figure, cells = panels(10, side * len(rows) + 0.4, len(columns), shares)
    for axes, (title, functions) in zip(cells, columns, strict=True):
        discs = _discs(as_numpy(functions), grid, pixels)
        canvas = np.full((len(rows) * step, width * step), np.nan)
        for line, members in enumerate(rows):
            left = (width - len(members)) * step // 2
            for place, index in enumerate(members):
                x, y = left + place * step, line * step
                canvas[y : y + pixels, x : x + pixels] = discs[index] / largest(discs[index])
        show(axes, canvas, 1.0, signed=True)
        axes.axis("off")
        axes.set_anchor("NE")  # titles at one height
        axes.set_title(title)
    for line, label in enumerate(labels):
        middle = (0.0, (line + 0.4) * step)
        cells[0].annotate(label, middle, (-6, 0), textcoords="offset points", ha="right", va="center", fontsize=7)
    return figure


def _discs(functions: np.ndarray, grid: tuple[int, int], pixels: int) -> np.ndarray:
    """(rank, pixels, pixels): orthographic views, NaN around the sphere, interpolated as the grid is."""
    images = torch.from_numpy(np.stack([on_grid(function, grid) for function in functions.T])).double()
    longitude, latitude = _VIEW
    x, y = math.cos(longitude), math.sin(longitude)
    right = torch.tensor([-y, x, 0.0], dtype=torch.float64)
    towards = torch.tensor([math.cos(latitude) * x, math.cos(latitude) * y, math.sin(latitude)], dtype=torch.float64)
    line = (torch.arange(pixels, dtype=torch.float64) + 0.5) * 2 / pixels - 1
    u, v = line[None, :, None], -line[:, None, None]
    depth = 1 - u.square() - v.square()
    places = u * right + v * torch.linalg.cross(towards, right) + depth.clamp_min(0).sqrt() * towards
    discs = equirectangular.sample(images[None], places[None], "driscoll-healy")[0]
    return discs.where(depth[..., 0] > 0, torch.nan).numpy()


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
    longitude, latitude = _VIEW
    right = np.array([-math.sin(longitude), math.cos(longitude), 0.0])
    flat = math.cos(latitude)
    towards = np.array([flat * math.cos(longitude), flat * math.sin(longitude), math.sin(latitude)])
    up = np.cross(towards, right)
    drawn = {title: (as_numpy(points), as_numpy(functions)) for title, (points, functions) in samplings.items()}
    figure, cells = panels(10, 10 / len(drawn) * len(labels) + 0.4, len(drawn))
    for axes, (title, (points, functions)) in zip(cells, drawn.items(), strict=True):
        seen = points @ towards > 0
        x, y = points[seen] @ right, points[seen] @ up
        size = min(40.0, 8_000 / len(points))  # squared points of type
        for row in range(len(labels)):
            values = functions[seen, row] / largest(functions[:, row])
            axes.scatter(x, y - 2.2 * row, size, values, cmap=DIVERGING, vmin=-1, vmax=1, linewidths=0)
        axes.set(xlim=(-1.1, 1.1), ylim=(-2.2 * len(labels) + 1.0, 1.2), aspect="equal", title=title)
        axes.axis("off")
    for row, label in enumerate(labels):
        cells[0].annotate(label, (-1.1, -2.2 * row + 1.0), fontsize=7)
    return figure


@styled
def mass_beside(
    mass: Float[Array, " points"], weights: Float[Array, " points"], grid: tuple[int, int], titles: tuple[str, str]
) -> Figure:
    """Learned mass and true weights as images of one scale, and both by row: mean and range of a row against its own
    weight. Both are scaled to the same sum, 1 for the mean."""
    learned, true = (on_grid(as_numpy(part) / as_numpy(part).mean(), grid) for part in (mass, weights))
    limit = max(largest(learned), largest(true))
    figure, (first, second, rows) = panels(10, 3.1, 3, shares=(1, 1.2, 1.2))
    for axes, values, title in ((first, learned, titles[0]), (second, true, titles[1])):
        image = show(axes, values, limit, signed=False)
        axes.set(title=title, xlabel="longitude", ylabel="colatitude", xticks=[], yticks=[])
    add_bar(image, second, shrink=0.8)
    index = np.arange(grid[0])
    mean = learned.mean(1)
    spread = np.abs(np.stack([learned.min(1), learned.max(1)]) - mean)
    rows.errorbar(index, mean, spread, color=BLUE, marker="o", markersize=3, capsize=2, label=titles[0])
    rows.plot(index, true.mean(1), color=ORANGE, linestyle="--", label=titles[1], zorder=3)
    rows.set(title="rows: mean and range", xlabel="row, from north to south", ylabel="mass / mean mass", ylim=(0, None))
    rows.figure.legend(loc="outside lower center", ncols=2, frameon=False)
    rows.grid(True)
    return figure


@styled
def by_degree(metrics: Mapping[str, tuple[Float[Array, " degrees"], float]], degrees: Int[Array, " degrees"]) -> Figure:
    """Metrics of every degree ℓ, a panel each, with a dashed line at the value that a perfect model has."""
    ells = as_numpy(degrees)
    figure, cells = panels(10, 2.6, len(metrics))
    for axes, (title, (values, perfect)) in zip(cells, metrics.items(), strict=True):
        axes.bar(ells, as_numpy(values), color=BLUE)
        axes.axhline(perfect, color=GREY, linestyle="--", linewidth=1)
        axes.set(title=title, xlabel="degree ℓ", xticks=ells)
        axes.grid(True, axis="y")
    return figure
