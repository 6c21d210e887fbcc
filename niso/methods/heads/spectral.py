"""Heads that diffuse by the operator."""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor, nn

from niso.methods.config import ClassifierConfig
from niso.methods.heads.head import Head
from niso.networks import SpectralHead


class Spectral(Head):
    """A `niso.networks.SpectralHead`."""

    reads = frozenset({"spectral_head"})
    of_operator = True
    standardises = True

    @classmethod
    def make(
        cls,
        examples: Float[Tensor, "batch length channels"],
        classes: int,
        config: ClassifierConfig,
        eigenvalues: Float[Tensor, " length"] | None,
    ) -> nn.Module:
        assert eigenvalues is not None
        return SpectralHead(examples.shape[2], classes, eigenvalues, config.spectral_head)
