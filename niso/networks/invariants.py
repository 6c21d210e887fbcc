"""Invariants of coefficients under all orthogonal maps, and what heads that are made of them share."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import TypeVar

import torch
from jaxtyping import Float
from torch import Tensor, nn

from niso.checks import check_count, check_tensors
from niso.linalg import without_autocast

M = TypeVar("M", bound="InvariantHead")


def inner_products(vectors: Float[Tensor, "batch rank channels"]) -> Float[Tensor, "batch channels*(channels+1)//2"]:
    """⟨vᵢ, vⱼ⟩ for i ≤ j, row by row: the upper triangle of each Gram matrix, O(rank)-invariant."""
    gram = vectors.mT @ vectors
    rows, columns = torch.triu_indices(gram.shape[-1], gram.shape[-1], device=gram.device)
    return gram[:, rows, columns]


class InvariantHead(nn.Module):
    """A head on coefficients (batch, rank, channels).

    Args:
        inputs: channels of the coefficients.
        classes: number of scores.
        rank: that of the coefficients, where it must be one.

    Raises:
        TypeError: inputs or classes that are not whole numbers.
        ValueError: fewer than one of them.
    """

    def __init__(self, inputs: int, classes: int, rank: int | None = None) -> None:
        super().__init__()
        self.sizes = {"channels": check_count("inputs", inputs)} | ({} if rank is None else {"rank": rank})
        check_count("classes", classes)


def in_own_precision(forward: Callable[[M, Tensor], Tensor]) -> Callable[[M, Tensor], Tensor]:
    """Decorate the `forward` of a head on invariants to run in the precision of its weights, also under autocast.

    Invariants may differ from observation to observation by a hundredth of themselves, of which bfloat16 keeps next to
    nothing. Coefficients of the wrong type, or of other sizes than the head's, are refused: TypeError and ValueError.
    """

    @wraps(forward)
    def wrapped(self: M, a: Tensor) -> Tensor:
        check_tensors(sizes=self.sizes, a=(a, "batch rank channels"))
        with without_autocast(a.device.type):
            return forward(self, a.to(next(self.parameters()).dtype))

    return wrapped
