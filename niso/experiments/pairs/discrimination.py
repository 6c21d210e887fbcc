"""Whether anything relates the views of a pair: a map fits true pairs better than mismatched ones."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from jaxtyping import Shaped
from torch import Tensor

from niso.data.evenly import evenly
from niso.methods.method import Method
from niso.metrics import transport_error

MOST = 256
"""Pairs that are looked at."""
LEAST = 10
"""Pairs that are needed."""
STRANGERS = 4
"""Mismatched pairs for each true one."""
BATCH = 256


@torch.no_grad()
def discrimination(method: Method, pairs: Iterable[tuple[Shaped[Tensor, "batch ..."], ...]]) -> float | None:
    """Share of the mismatched pairs, an observation and the view of another, that their map fits worse than the map of
    the true pair fits that: 1 where views are related, 1/2 where nothing relates them.

    That a map fits its own pair says little: to any two observations there is one that fits somehow.

    Args:
        pairs: of observations and views; whatever follows is not looked at. Copies of an observation are no strangers.
            Views without energy, which any map fits, are not compared.

    Returns:
        None where there are fewer than `LEAST` pairs, or hardly any that differ.
    """
    x, tx = (torch.cat(views) for views in zip(*((x, tx) for x, tx, *_ in pairs), strict=True))
    rows = evenly(MOST, len(x)).to(x.device)
    x, tx = x[rows], tx[rows]
    a, b = (torch.cat([method.encode(part) for part in view.split(BATCH)]) for view in (x, tx))
    own = transport_error(method.solve(a, b) @ a, b)
    worse, with_energy = list[Tensor](), (b != 0).flatten(1).any(1)
    for step in range(1, min(STRANGERS, len(x) - 1) + 1):
        other = b.roll(step, 0)
        error = transport_error(method.solve(a, other) @ a, other)
        strangers = (x != x.roll(step, 0)).flatten(1).any(1) & with_energy & with_energy.roll(step, 0)
        worse.append(((own < error).double() + 0.5 * (own == error).double())[strangers])
    compared = torch.cat(worse) if worse else own.new_zeros(0)
    return compared.mean().item() if len(compared) >= LEAST else None
