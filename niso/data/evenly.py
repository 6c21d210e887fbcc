"""Some of many, evenly spread over all of them."""

from __future__ import annotations

import torch
from jaxtyping import Int
from torch import Tensor


def evenly(count: int, total: int, last: bool = False) -> Int[Tensor, " chosen"]:
    """Indices of `count` out of `total`, or of all, evenly spread from the first one on; with `last`, to the last.

    They are on the CPU, whatever the default device of a program is.
    """
    count = min(count, total)
    if last:
        places = [round(place * (total - 1) / max(1, count - 1)) for place in range(count)]
        return torch.tensor(places, dtype=torch.long, device="cpu")
    return torch.arange(count, device="cpu") * total // max(count, 1)
