"""Heads of vector neurons."""

from __future__ import annotations

from typing import Any

from jaxtyping import Float
from torch import Tensor, nn

from niso.methods.config import ClassifierConfig
from niso.methods.heads.head import Head
from niso.networks import VectorNeuronHead


class VectorNeurons(Head):
    """A `niso.networks.VectorNeuronHead`: the paper's."""

    reads = frozenset({"vector_neurons"})

    @classmethod
    def unread(cls, config: Any) -> dict[str, str]:
        variant = config.vector_neurons.variant
        only = {"paper": "expansion", "released": "leak"}[variant]
        return {f"vector_neurons.{only}": f"--vector-neurons.variant {variant} has none"}

    @classmethod
    def make(
        cls,
        examples: Float[Tensor, "batch length channels"],
        classes: int,
        config: ClassifierConfig,
        eigenvalues: Float[Tensor, " length"] | None,
    ) -> nn.Module:
        return VectorNeuronHead(examples.shape[2], classes, config.vector_neurons)
