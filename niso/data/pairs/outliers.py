"""Few observations with values far outside of those of all others."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

import numpy as np

from niso.data.pairs.scaling import Bounds

_FAR = 20
"""Distance from the range of all other observations, in widths of that range, from which a value is far off."""
_FEW = 0.01
"""Share of the observations that may be far off; one may in any case."""
_ROUNDING = 1e-6
"""Relative width of a range of values that may differ by rounding alone."""


class Outliers(NamedTuple):
    """Rows with values far off, in ascending order, and what is to be said of them; empty where there are none."""

    rows: np.ndarray
    text: str


def outliers(views: Collection[str], bounds: Bounds | None) -> Outliers:
    """Those of all views and parts; of each channel where channels are scaled one by one.

    Args:
        views: their names.
        bounds: of their observations; None of pictures in bytes.
    """
    if bounds is not None:
        low, high = bounds
        for channel in range(low.shape[-1]):
            rows = _far(low[..., channel], high[..., channel])
            if len(rows):
                where = f" in channel {channel}" if low.shape[-1] > 1 else ""
                return Outliers(rows, _said(list(views), low[..., channel], high[..., channel], rows, where))
    return Outliers(np.zeros(0, int), "")


def _said(keys: list[str], low: np.ndarray, high: np.ndarray, rows: np.ndarray, where: str) -> str:
    others = np.delete(np.arange(low.shape[1]), rows)
    least, most = low[:, others].min(), high[:, others].max()
    beyond = np.stack([least - low[:, rows], high[:, rows] - most])
    sign, view, row = np.unravel_index(beyond.argmax(), beyond.shape)
    value = (low, high)[sign][view, rows[row]]
    also, them = (f", and {len(rows) - 1} more like it", "them") if len(rows) > 1 else ("", "it")
    return (
        f"row {rows[row]} of {keys[view]} holds {value:.3g}{where}{also}, far outside the {least:.3g} … {most:.3g} of "
        f"the other rows: repair {them}, or leave {them} out"
    )


def _far(low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Rows far outside of the range of all others, from their bounds (views, rows) in one channel."""
    middle = np.median(low + (high - low) / 2)
    reach = np.maximum(high - middle, middle - low).max(0)
    order = np.argsort(-reach)
    most_far = max(1, int(_FEW * len(order)))
    falls = reach[order[:most_far]] > _FAR / 2 * reach[order[1 : 1 + most_far]]
    for count in 1 + np.flatnonzero(falls):
        far, others = order[:count], order[count:]
        least, most = low[:, others].min(), high[:, others].max()
        beyond = np.maximum(high[:, far] - most, least - low[:, far]).max(0)
        varying = most - least > _ROUNDING * max(-least, most)
        if varying and (beyond > _FAR * (most - least)).all():
            return np.sort(far)
    return np.zeros(0, int)
