"""Some of many, evenly spread over all of them."""

from __future__ import annotations

import torch
from jaxtyping import Int
from torch import Tensor


def evenly(count: int, total: int) -> Int[Tensor, " chosen"]:
    """Indices of `count` out of `total`, or of all, evenly spread from the first one on."""
    count = min(count, total)
    return torch.arange(count) * total // max(count, 1)
