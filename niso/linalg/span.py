"""The span of the columns of a matrix."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from niso.linalg.precision import full_precision
from niso.linalg.svd import robust_svd


@full_precision
def span(a: Float[Tensor, "*batch rows columns"]) -> Float[Tensor, "*batch rows rows"]:
    """Orthogonal projection onto the span of the columns, to rounding; columns may depend on each other, or be zero."""
    u, s, _ = robust_svd(a)
    held = s > s[..., :1] * max(a.shape[-2:]) * torch.finfo(a.dtype).eps
    u = u * held[..., None, :]
    return u @ u.mT
