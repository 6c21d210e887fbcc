"""Ablations of the terms that compare invariants: they alone, with reconstruction, and no map solved in training."""

from __future__ import annotations

from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor, nn

from niso import losses
from niso.methods.isometry import Contrastive, NoOperator, Vicreg
from niso.model import NeuralIsometry

_OF_MAPS = {"equivariance", "relative_equivariance", "whitened"}
"""Settings of a loss that is not there."""


class InvariantsObjective(nn.Module):
    """Observations are decoded from coefficients of their own, and invariants of ψ and Tψ are compared.

    Args:
        model: the model to be trained; its eigenvalues and its mask are not used.
        contrastive, vicreg: weights of `niso.losses.contrastive` and `niso.losses.vicreg`.
    """

    def __init__(self, model: NeuralIsometry, contrastive: float, vicreg: float) -> None:
        super().__init__()
        self.model = model
        self.contrastive = contrastive
        self.vicreg = vicreg

    def forward(self, batch: tuple[Tensor, ...], progress: float) -> dict[str, Float[Tensor, ""]]:
        """Loss terms of a pair (ψ, Tψ) of batches; "loss" is their weighted sum."""
        x = torch.cat(batch)
        spectrum = self.model.spectrum()
        coefficients = self.model.encode(x, spectrum)
        # twice a mean over both views, as in a `NeuralIsometry`: there it is a sum over two directions
        error = losses.reconstruction(self.model.decode(coefficients, spectrum), x, self.model.norm)
        terms = {"reconstruction": 2 * error}
        unused = losses.multiplicity(spectrum.eigenvalues)
        loss = terms["reconstruction"] + 0.0 * unused  # several processes want a gradient for each parameter
        a, b = coefficients.split([len(view) for view in batch])
        for name, weight in (("contrastive", self.contrastive), ("vicreg", self.vicreg)):
            if weight:
                terms[name] = getattr(losses, name)(a, b)
                loss = loss + weight * terms[name]
        return {"loss": loss, **terms}


class ContrastiveAlone(NoOperator, Contrastive):
    """The contrastive term without maps (not in the paper): what niso-contrastive owes to τ is the difference."""

    reads: ClassVar[frozenset[str]] = (NoOperator.reads | {"contrastive"}) - _OF_MAPS

    def objective(self) -> nn.Module:
        return InvariantsObjective(self.model, self.contrastive, 0.0)


class VicregAlone(NoOperator, Vicreg):
    """The variance of invariants without maps (not in the paper): what niso-vicreg owes to τ is the difference."""

    reads: ClassVar[frozenset[str]] = (NoOperator.reads | {"vicreg"}) - _OF_MAPS

    def objective(self) -> nn.Module:
        return InvariantsObjective(self.model, 0.0, self.vicreg)
