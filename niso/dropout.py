"""Dropout of coefficients, by their place in the spectrum."""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from niso.checks import check_number, check_tensors
from niso.random import batch_rand


class SpectralDropout(nn.Module):
    """Dropout that orders the spectrum by importance: in training, some examples keep only their first coefficients.

    With the given probability an example loses all coefficients from a random index on, uniform in 2 … rank
    counted from one (paper §4.2, "Spectral Dropout").

    Args:
        probability: chance that an example is cut; 0 turns the layer off, the paper takes 0.5.

    Raises:
        ValueError: a probability outside [0, 1].
    """

    def __init__(self, probability: float = 0.5) -> None:
        super().__init__()
        check_number("dropout probability", probability, most=1.0)
        self.probability = probability

    def keep(self, batch: int, rank: int, device: torch.device) -> Bool[Tensor, "batch rank 1"]:
        """Mask of the coefficients that each example keeps."""
        chosen = batch_rand(batch, device) < self.probability
        kept = 1 + (batch_rand(batch, device) * (rank - 1)).long()
        cut = torch.arange(rank, device=device) >= kept[:, None]
        return ~(cut & chosen[:, None])[..., None]

    def forward(
        self, a: Float[Tensor, "batch rank channels"], eigenvalues: Float[Tensor, " rank"] | None = None
    ) -> Float[Tensor, "batch rank channels"]:
        """Coefficients `a` with zeros where they are dropped.

        Args:
            a: coefficients.
            eigenvalues: those of the coefficients, which rank them; needed only where they are not in ascending order.

        Raises:
            TypeError: not tensors of floating-point numbers.
            ValueError: shapes that do not fit.
        """
        check_tensors(a=(a, "batch rank channels"))
        if eigenvalues is not None:
            check_tensors(sizes={"rank": a.shape[1]}, eigenvalues=(eigenvalues, "rank"))
        if not self.training or self.probability == 0 or a.shape[1] == 1:
            return a
        keep = self.keep(a.shape[0], a.shape[1], a.device)
        if eigenvalues is not None:
            keep = keep[:, eigenvalues.detach().argsort(stable=True).argsort()]
        return a * keep

    def extra_repr(self) -> str:
        return f"probability={self.probability}"
