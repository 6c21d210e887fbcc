"""Figures of classification."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure

from niso.figures.style import BLUE, GREY, panels, styled
from niso.results import Curve


@styled
def accuracy_by_strength(curve: Curve, accuracy: float, title: str) -> Figure:
    """Accuracy against the strength of the transformation, with its binomial standard error, and a dashed line at an
    accuracy that the title explains."""
    share = np.array(curve["y"])
    error = np.sqrt(share * (1 - share) / curve["count"])
    figure, (axes,) = panels(5.5, 3.4)
    axes.errorbar(curve["x"], 100 * share, 100 * error, color=BLUE, marker="o", markersize=3, capsize=2)
    axes.axhline(100 * accuracy, color=GREY, linestyle="--", linewidth=1)
    axes.set(xlabel=curve["x_label"], ylabel="accuracy (%)", title=title)
    axes.grid(True)
    return figure
