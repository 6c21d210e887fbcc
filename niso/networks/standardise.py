"""Features standardised over the batch, whichever process holds a part of it."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn

from niso.collective import global_batch, local_part


class Standardise(nn.BatchNorm1d):
    """Features less their mean, divided by their standard deviation; without weights.

    While training they are those of the batch, with several processes of the global one; afterwards the running ones,
    which begin with those of the first batch and forget early ones: features can move while a head is trained on them.

    Args:
        count: features.
        eps: added to the variance.
    """

    def __init__(self, count: int, eps: float) -> None:
        super().__init__(count, eps=eps, affine=False)

    def forward(self, x: Float[Tensor, "batch count"]) -> Float[Tensor, "batch count"]:
        if not self.training:
            return super().forward(x)
        x = global_batch(x)
        self._begin(x.detach())
        return local_part(super().forward(x))

    def _begin(self, x: Float[Tensor, "batch count"]) -> None:
        """Before the first step, running means and variances are those of the batch: the zeros and ones that they would
        else forget slowly are far larger than those of faint features."""
        assert self.num_batches_tracked is not None and self.running_mean is not None and self.running_var is not None
        first = self.num_batches_tracked == 0
        variance, mean = torch.var_mean(x.to(self.running_mean.dtype), 0)
        self.running_mean.copy_(mean.where(first, self.running_mean))
        self.running_var.copy_(variance.where(first, self.running_var))
