"""Quantiles of functions on a surface, by area or other weights of its points."""

from __future__ import annotations

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

LEVELS = torch.linspace(0.03, 0.97, 9, dtype=torch.float64)
"""Of the quantiles by which studies compare signatures."""


def quantiles(
    values: Float[Tensor, "points channels"], weights: Float[Tensor, "points columns"], levels: Tensor = LEVELS
) -> Float[Tensor, "channels levels"]:
    """Quantiles of each channel, by weights of the points; at a value lie the weights below it and half of its own.

    Args:
        values: in float64.
        weights: a column for each channel, or one for all; of any sum.
        levels: in 0 … 1.
    """
    order = values.argsort(0)
    values, weights = values.gather(0, order), weights.expand_as(values).gather(0, order)
    share = (weights.cumsum(0) - weights / 2) / weights.sum(0)
    columns = zip(share.T.numpy(), values.T.numpy(), strict=True)
    return torch.stack([torch.from_numpy(np.interp(levels.numpy(), s, v)) for s, v in columns])
