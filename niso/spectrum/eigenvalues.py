"""Parametrisations of the eigenvalues Λ by a vector l of parameters."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor

from niso.linalg import full_precision

Eigenvalues = Literal["cumulative", "sorted", "shifted"]
"""Parametrisation of Λ by l: cumsum(l²), sort(l²), or l − min(l)."""


def initial_root(kind: Eigenvalues, rank: int) -> Float[Tensor, " rank"]:
    """What l starts at."""
    return _START[kind](rank)


@full_precision
def ordered(root: Float[Tensor, " rank"], kind: Eigenvalues) -> Float[Tensor, " rank"]:
    """Λ of l."""
    return _ORDER[kind](root)


_START: dict[str, Callable[[int], Tensor]] = {
    "cumulative": lambda rank: torch.randn(rank) / rank,
    "sorted": lambda rank: torch.randn(rank),
    "shifted": lambda rank: torch.linspace(0, 1, rank),
}
_ORDER: dict[str, Callable[[Tensor], Tensor]] = {
    "cumulative": lambda root: root.square().cumsum(0),
    "sorted": lambda root: root.square().sort().values,
    "shifted": lambda root: root - root.min(),
}
