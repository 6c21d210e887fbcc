"""Pictures of a learned spectrum: eigenfunctions, eigenvalues, mass."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
from jaxtyping import Float, Int
from matplotlib.collections import LineCollection, PatchCollection
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from niso.figures.style import (
    BLUE,
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
    wrapped,
)

TILES = 64
"""Functions in a mosaic, at most."""


@styled
def eigenfunction_mosaic(
    eigenfunctions: Float[Array, "points rank"],
    grid: tuple[int, int],
    eigenvalues: Float[Array, " rank"],
    harmonics: Float[Array, "points rank"] | None = None,
) -> Figure:
    """The first eigenfunctions as small images, row by row, each scaled to its own largest magnitude.

    Args:
        grid: (height, width) of the domain, points = height × width in row-major order.
        eigenvalues: written above each learned function.
        harmonics: projections on true functions, beside the learned ones, in the same order and each on the scale of
            its learned one: faint where little of it lies there.

    Raises:
        ValueError: the points do not fill the grid.
    """
    mosaics = {"learned eigenfunctions": eigenfunctions, "nearest true harmonics": harmonics}
    shown_functions = {title: as_numpy(functions) for title, functions in mosaics.items() if functions is not None}
    rank = eigenfunctions.shape[1]
    shown = min(rank, TILES)
    height, width = grid
    columns = min(shown, math.ceil(math.sqrt(shown * max(1, height / width))))  # so many that tall ones fit a page
    rows = math.ceil(shown / columns)
    side = 5 if shown > 1 else 2.5
    gap_x = max(1, width // 8)
    inch = columns * (width + gap_x) / side  # in points
    gap_y = math.ceil(0.18 * inch)  # for an eigenvalue
    size = rows * (height + gap_y), columns * (width + gap_x)
    values = as_numpy(eigenvalues)
    decimals = max(0, 3 - math.floor(math.log10(largest(values))))
    number = len(shown_functions)
    scales = [largest(function) for function in shown_functions["learned eigenfunctions"].T]
    figure, cells = panels(side * number, 0.95 * side * size[0] / size[1] + 0.35, number)
    for axes, (title, functions) in zip(cells, shown_functions.items(), strict=True):
        canvas = np.full(size, np.nan)
        frames = []
        for index in range(shown):
            tile = on_grid(functions[:, index], grid)
            top, left = (index // columns) * (height + gap_y) + gap_y, (index % columns) * (width + gap_x)
            canvas[top : top + height, left : left + width] = tile / scales[index]
            frames.append(Rectangle((left - 0.5, top - 0.5), width, height))
            if columns < 2.5 * side and axes is cells[0]:  # the eigenvalues are learned ones
                label = f"{values[index]:.{decimals}f}"
                axes.text(left + width / 2 - 0.5, top - 0.7, label, ha="center", va="bottom", fontsize=7)
        show(axes, canvas, 1.0, signed=True)
        axes.add_collection(PatchCollection(frames, facecolor="none", edgecolor=GREY, linewidth=0.4, clip_on=False))
        axes.axis("off")
        axes.set_title(title if shown == rank else f"{title} (the first {shown} of {rank})")
    return figure


@styled
def mass_map(mass: Float[Array, " points"], grid: tuple[int, int]) -> Figure:
    """Learned mass as its deviation from the mean, in per cent: white is the mean, blue is more, red is less.

    The scale reaches at least ±1 %, so that a uniform mass looks uniform.
    """
    values = as_numpy(mass)
    deviation = 100 * (on_grid(values, grid) / (values.mean() or 1.0) - 1)
    figure, (axes,) = panels(3.7, 2.9)
    image = show(axes, deviation, max(1.0, largest(deviation)), signed=True)
    add_bar(image, axes, label="deviation from the mean mass (%)", shrink=0.9)
    axes.set_title("learned mass")
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
def spectrum_plot(
    eigenvalues: Float[Array, " rank"], energy: Float[Array, " rank"], spaces: Int[Array, " rank"]
) -> Figure:
    """Learned eigenvalues in ascending order, and against the true Laplacian eigenvalue of each eigenfunction.

    Args:
        energy: true eigenvalue of the subspace that each eigenfunction was matched to.
        spaces: that subspace's number; the eigenfunctions of one subspace are joined by a line.
    """
    values, truth = as_numpy(eigenvalues), as_numpy(energy)
    rank = np.argsort(np.argsort(values, kind="stable"), kind="stable")
    labels = as_numpy(spaces)
    members = [m for space in np.unique(labels) if len(m := np.flatnonzero(labels == space)) > 1]
    figure, (ascending, against) = panels(10, 3.8, 2, shares=(1, 1.15))
    for axes, x, label in (
        (ascending, rank, "eigenfunction, by ascending eigenvalue"),
        (against, truth, "true Laplacian eigenvalue of the matched subspace"),
    ):
        lines = [np.stack([x[m], values[m]], axis=1)[np.argsort(values[m])] for m in members]
        axes.add_collection(LineCollection(lines, colors=GREY, linewidths=0.8, zorder=1))
        points = axes.scatter(x, values, c=truth, cmap="cividis", s=18, linewidths=0.3, edgecolors="black", zorder=2)
        axes.set(xlabel=label, ylabel="learned eigenvalue λ")
        axes.grid(True)
    add_bar(points, against, label="true Laplacian eigenvalue")
    return figure


@styled
def energy_histogram(energy: Float[Array, " rank"], label: str) -> Figure:
    """How purely each eigenfunction lies in one true subspace (1 = entirely): all of them in the order given,
    and their histogram, with the mean and the worst."""
    values = as_numpy(energy)
    finite = values[np.isfinite(values)]
    low = 1 - 1.1 * max(0.01, 1 - finite.min(initial=1.0))  # both axes reach from below the worst to 1
    low = low if low > 0.4 else 0.0
    figure, (each, histogram) = panels(10, 3.4, 2)
    each.plot(np.ma.masked_invalid(values), linestyle="none", marker="o", markersize=3.5, color=BLUE)
    each.set(xlabel="eigenfunction, in the order of the spectrum", ylabel=wrapped(label, 32))
    histogram.hist(finite.clip(max=1.0), bins=np.linspace(low, 1, 41).tolist(), color=BLUE)
    histogram.set(xlabel=label, ylabel="eigenfunctions")
    for axes in (each, histogram):
        axes.grid(True)
    margin = 0.03 * (1 - low)
    each.set_ylim(low - margin, 1 + margin)
    if finite.size:
        mean, worst = finite.mean(), finite.min()
        lines = each.axhline(mean, color=ORANGE, linewidth=1), histogram.axvline(mean, color=ORANGE, linewidth=1)
        for axes, line in zip((each, histogram), lines, strict=True):
            axes.figure.legend([line], ["mean"], loc="outside lower center", frameon=False)
        mean_text, worst_text = (f"{value:.4f}" if value >= 1e-3 else f"{value:.2g}" for value in (mean, worst))
        histogram.set_title(f"mean {mean_text}, worst {worst_text}")
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
