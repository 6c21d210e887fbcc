"""Figures of classification."""

from __future__ import annotations

import numpy as np
from jaxtyping import Bool, Float
from matplotlib.figure import Figure

from niso.figures.style import BLUE, GREY, Array, as_numpy, panels, styled


@styled
def accuracy_by_strength(
    correct: Bool[Array, " examples"],
    strength: Float[Array, " examples"],
    label: str,
    bins: int = 20,
) -> Figure:
    """Accuracy against the strength of the transformation, in bins of equally many examples, with its binomial standard
    error. A dashed line shows the accuracy on all examples, which alone includes those of infinite strength.

    Raises:
        ValueError: no example has a finite strength.
    """
    right, x = as_numpy(correct).astype(float), as_numpy(strength)
    finite = np.isfinite(x)
    if not finite.any():
        raise ValueError("no example has a finite strength")
    order = np.argsort(x[finite], kind="stable")
    parts = np.array_split(order, min(bins, len(order)))
    centre, share = (np.array([f(v[finite][part]) for part in parts]) for f, v in ((np.median, x), (np.mean, right)))
    error = np.sqrt(share * (1 - share) / [len(part) for part in parts])
    figure, (axes,) = panels(5.5, 3.4)
    axes.errorbar(centre, 100 * share, 100 * error, color=BLUE, marker="o", markersize=3, capsize=2)
    axes.axhline(100 * right.mean(), color=GREY, linestyle="--", linewidth=1)
    axes.set(xlabel=label, ylabel="accuracy (%)", title=f"{100 * right.mean():.2f} % of {len(right):,} images")
    axes.grid(True)
    return figure
