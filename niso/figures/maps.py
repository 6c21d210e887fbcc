"""Pictures of operators and of functional maps."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float, Int
from matplotlib.axes import Axes
from matplotlib.collections import PatchCollection
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.ticker import MaxNLocator

from niso.figures.style import ORANGE, Array, add_bar, as_numpy, largest, on_grid, panels, show, styled

ENLARGED = 17
"""Eigenfunctions whose blocks are shown enlarged, at most; the first block in any case."""


@styled
def matrix_pair(
    left: Float[Array, "rows columns"], right: Float[Array, "rows columns"], titles: tuple[str, str]
) -> Figure:
    """Two matrices side by side, e.g. Ω and the Laplacian, each with its own scale: centred at zero where any entry is
    negative, else from zero."""
    figure, axes = panels(10, 4.4, 2)
    _draw_pair(axes, (as_numpy(left), as_numpy(right)), titles)
    return figure


def _draw_pair(pair: list[Axes], matrices: Sequence[np.ndarray], titles: tuple[str, str]) -> None:
    for axes, values, title in zip(pair, matrices, titles, strict=True):
        add_bar(show(axes, values), axes, shrink=0.85)
        axes.set_title(title)
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_major_locator(MaxNLocator("auto", integer=True, min_n_ticks=1))


@styled
def kernel_pair(
    left: Float[Array, "points points"],
    right: Float[Array, "points points"],
    grid: tuple[int, int],
    titles: tuple[str, str],
) -> Figure:
    """Stencils of two operators on a periodic grid: their mean responses to an impulse moved to the centre.

    Every column of an operator is shifted circularly until its own point lies at (height // 2, width // 2);
    the mean of all columns is shown.
    """
    height, width = grid
    kernels = []
    for operator in (left, right):
        columns = as_numpy(operator).T
        centred = [
            np.roll(on_grid(column, grid), (height // 2 - point // width, width // 2 - point % width), (0, 1))
            for point, column in enumerate(columns)
        ]
        kernels.append(np.mean(centred, axis=0))
    figure, pair = panels(5.9, 2.9, 2)
    _draw_pair(pair, kernels, titles)
    for axes in pair:
        axes.set(xticks=[], yticks=[])
    return figure


@styled
def map_before_after(
    tau: Float[Array, "rank rank"],
    order: Int[Array, " rank"] | Sequence[int],
    sizes: Sequence[int],
) -> Figure:
    """|τ| as learned; with the eigenfunctions ordered so that those of one true subspace stand together, each
    subspace outlined; and an enlargement of the first blocks.

    Args:
        order: indices of the eigenfunctions in the new order.
        sizes: number of eigenfunctions in each block, in the new order.

    Raises:
        ValueError: the sizes do not add up to the rank.
    """
    magnitude = np.abs(as_numpy(tau))
    indices = np.asarray(as_numpy(order), dtype=int)
    ends = np.cumsum(np.asarray(sizes, dtype=int))
    if ends.size == 0 or ends[-1] != len(magnitude):
        raise ValueError(f"blocks of {sum(sizes)} eigenfunctions do not fill a map of {len(magnitude)}")
    matched = magnitude[np.ix_(indices, indices)]
    enlarged = int(max([ends[0], *ends[ends <= ENLARGED]]))
    limit = max(1.0, largest(magnitude))
    figure, (before, after, detail) = panels(10, 3.4, 3, shares=(1, 1, 1.2))
    for axes, values, title in (
        (before, magnitude, "|τ|, as learned"),
        (after, matched, "|τ|, by matched true subspace"),
        (detail, matched[:enlarged, :enlarged], f"the first {enlarged}, enlarged"),
    ):
        image = show(axes, values, limit, signed=False)
        axes.set_title(title)
        axes.set_anchor("N")  # titles at one height
        if axes is not before:
            corners = [(end - size, size) for end, size in zip(ends, sizes, strict=True) if end <= len(values)]
            outlines = [Rectangle((start - 0.5, start - 0.5), size, size) for start, size in corners]
            width = 1.6 if axes is detail else min(0.7, 30 / len(values))  # not to hide small blocks
            axes.add_collection(PatchCollection(outlines, facecolor="none", edgecolor=ORANGE, linewidth=width))
    after.add_patch(
        Rectangle((-0.5, -0.5), enlarged, enlarged, fill=False, edgecolor="black", linewidth=0.8, linestyle=":")
    )
    add_bar(image, detail, shrink=0.8)
    return figure
