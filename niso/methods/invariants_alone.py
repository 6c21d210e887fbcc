"""Ablations of the terms that compare invariants: they alone, with reconstruction. No map is solved in training.

Evaluation and `niso map` solve for maps of what is trained, as of any method that has them (`Method.has_maps`).
"""

from __future__ import annotations

from typing import ClassVar, Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn

from niso import losses
from niso.checks import Scalar
from niso.methods.isometry import Contrastive, NoOperator, Vicreg
from niso.model import NeuralIsometry

_OF_MAPS = {"equivariance", "relative_equivariance", "whitened"}
"""Settings of a loss that is not there."""


class InvariantsObjective(nn.Module):
    """Observations are decoded from coefficients of their own, and invariants of ψ and Tψ are compared.

    Args:
        model: the model to be trained; its eigenvalues have no weight, its mask is not used.
        term: which loss compares them, `niso.losses.contrastive` or `niso.losses.vicreg`.
        weight: of that loss.
    """

    def __init__(self, model: NeuralIsometry, term: Literal["contrastive", "vicreg"], weight: float) -> None:
        super().__init__()
        self.model = model
        self.term = term
        self.weight = weight

    def forward(self, batch: tuple[Tensor, ...], progress: Scalar) -> dict[str, Float[Tensor, ""]]:
        """Loss terms of a pair (ψ, Tψ) of batches; "loss" is their weighted sum."""
        spectrum = self.model.spectrum()
        parts = self.model.encode(torch.cat(batch), spectrum).split([len(view) for view in batch])
        # a sum over views, as in a `NeuralIsometry` over directions; one by one, as `batch_rand` needs
        errors = [
            losses.reconstruction(self.model.decode(part, spectrum), view, self.model.norm)
            for part, view in zip(parts, batch, strict=True)
        ]
        compare = losses.contrastive if self.term == "contrastive" else losses.vicreg
        terms = {"reconstruction": torch.stack(errors).sum(), self.term: compare(*parts)}
        unused = losses.multiplicity(spectrum.eigenvalues)  # several processes want a gradient for each parameter
        return {"loss": terms["reconstruction"] + self.weight * terms[self.term] + 0.0 * unused, **terms}


class ContrastiveAlone(NoOperator, Contrastive):
    """The contrastive term alone: no map is solved in training (not in the paper). What niso-contrastive owes to τ is
    the difference."""

    reads: ClassVar[frozenset[str]] = (NoOperator.reads | {"contrastive"}) - _OF_MAPS

    def objective(self) -> nn.Module:
        return InvariantsObjective(self.model, "contrastive", self.config.contrastive)


class VicregAlone(NoOperator, Vicreg):
    """The variance of invariants alone: no map is solved in training (not in the paper). What niso-vicreg owes to τ is
    the difference."""

    reads: ClassVar[frozenset[str]] = (NoOperator.reads | {"vicreg"}) - _OF_MAPS

    def objective(self) -> nn.Module:
        return InvariantsObjective(self.model, "vicreg", self.config.vicreg)
