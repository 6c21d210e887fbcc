"""Features standardised over the batch, whichever process holds a part of it."""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor, nn

from niso.collective import global_batch, local_part


class Standardise(nn.BatchNorm1d):
    """Features less their mean, divided by their standard deviation; without weights.

    While training they are those of the batch, with several processes of the global one; afterwards the running ones,
    which forget early batches: features can move while a head is trained on them.

    Args:
        count: features.
        eps: added to the variance.
    """

    def __init__(self, count: int, eps: float) -> None:
        super().__init__(count, eps=eps, affine=False)

    def forward(self, x: Float[Tensor, "batch count"]) -> Float[Tensor, "batch count"]:
        if not self.training:
            return super().forward(x)
        return local_part(super().forward(global_batch(x)))
