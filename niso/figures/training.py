"""Figures of observations and of training."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
from jaxtyping import Float, Int
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine

from niso.figures.style import BLUE, GREY, Array, add_bar, as_numpy, largest, logarithmic, parts, show, styled, wrapped

_GAP = 0.04
"""Between images, as a share of their width."""


@styled
def image_rows(
    rows: Sequence[tuple[str, Float[Array, "_count _height _width ..."]]],
    limits: tuple[float, float] = (0.0, 1.0),
) -> Figure:
    """Rows of images, each with a title: an observation, its transformed version, that predicted through τ, …

    Args:
        rows: titles and images. (count, height, width, 3) are colours; (count, height, width) are numbers,
            drawn with a colour bar for the row, by the diverging map where any is negative.
        limits: the values of black and white in colour images; values outside are clipped.

    Raises:
        ValueError: there is no image.
    """
    count = max((len(images) for _, images in rows), default=0)
    if count == 0:
        raise ValueError("there are no images to show")
    drawn = [(title, as_numpy(images)) for title, images in rows]
    heights = [values.shape[1] / values.shape[2] for _, values in drawn]  # in images' widths
    across = min(1.3, 8.2 / count, 2 / max(heights))
    tight = ConstrainedLayoutEngine(w_pad=0.02, h_pad=0.02, wspace=0, hspace=0, rect=(0.005, 0, 0.99, 1))
    bars = any(values.ndim == 3 for _, values in drawn)
    width, height = across * count + (1.9 if bars else 1.3), sum(across * high + 0.06 for high in heights) + 0.1
    figure = Figure((width, height), layout=tight)
    # axes are what takes time: a row has one, whose unit is an image's width
    lines = figure.subplots(len(rows), 1, squeeze=False, height_ratios=heights)[:, 0]
    for axes, (title, values), high in zip(lines, drawn, heights, strict=True):
        axes.axis("off")
        for place, values_of_one in enumerate(values):
            left = place * (1 + _GAP)
            extent = (left, left + 1.0, high, 0.0)
            if values.ndim == 4:
                black, white = limits
                axes.imshow(np.nan_to_num((values_of_one - black) / (white - black)).clip(0, 1), extent=extent)
            else:
                image = show(axes, values_of_one, largest(values), bool((values < 0).any()), extent)
        axes.set(xlim=(0, count * (1 + _GAP) - _GAP), ylim=(high, 0), anchor="W")
        if values.ndim == 3:
            add_bar(image, axes, shrink=0.85, pad=0.01, aspect=12, panchor="W")
        words = {"transform": axes.transAxes, "ha": "right", "va": "center", "parse_math": False}  # a name may hold $
        axes.text(-0.08 / count, 0.5, wrapped(title, 20), **words)
    return figure


@styled
def training_curves(
    columns: Mapping[str, Float[Array, " rows"]], step: Float[Array, " rows"] | Int[Array, " rows"]
) -> Figure:
    """Every logged quantity against the step, in a panel of its own. Except for learning rates and accuracies, scales
    are logarithmic where all values are positive and span a factor of 10 or more. Values that are not finite leave a
    gap."""
    x = as_numpy(step)
    across = 2 if len(columns) == 4 else min(3, max(1, len(columns)))
    down = max(1, math.ceil(len(columns) / across))
    figure = Figure((10 if across > 1 else 5, 2.5 * down + 0.1))
    columns_of_panels = [list(part.subplots(down, 1, squeeze=False)[:, 0]) for part in parts(figure, across)]
    in_rows = [axes for line in zip(*columns_of_panels, strict=True) for axes in line]
    for axes in in_rows[len(columns) :]:  # unseen, but as large as the others, so that rows are at one height
        axes.set(title=" ", xlabel=" ", yticks=[])
        axes.tick_params(colors="none")
        axes.spines[:].set_visible(False)
    for axes, (name, column) in zip(in_rows, columns.items(), strict=False):
        values = np.ma.masked_invalid(as_numpy(column))
        learning_rate = name == "learning_rate"
        axes.plot(x, values, color=GREY if learning_rate else BLUE, marker="." if len(x) < 3 else None)
        low, high = (values.min(), values.max()) if values.count() else (0.0, 0.0)
        if not learning_rate and "accuracy" not in name and 0 < 10 * low <= high:
            logarithmic(axes, low, high)
        axes.set(title=name.replace("_", " "), xlabel="step")
        axes.grid(True)
    return figure
