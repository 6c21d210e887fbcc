"""What all models have in common: observations to coefficients, and back."""

from __future__ import annotations

from abc import ABC, abstractmethod

from jaxtyping import Float, Shaped
from torch import Tensor, nn


class Autoencoding(nn.Module, ABC):
    """A model around an encoder to latent functions and a decoder from them."""

    encoder: nn.Module
    decoder: nn.Module

    @abstractmethod
    def encode(self, x: Shaped[Tensor, "batch ..."]) -> Float[Tensor, "batch length channels"]:
        """Coefficients of observations, or whole latent functions, as heads get them."""

    @abstractmethod
    def decode(self, a: Float[Tensor, "batch length channels"]) -> Shaped[Tensor, "batch ..."]:
        """Observations from what `encode` gives."""
