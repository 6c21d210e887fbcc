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

    def decoded(self, z: Float[Tensor, "batch points channels"]) -> Shaped[Tensor, "batch ..."]:
        """Observations from latent functions, in the decoder's precision: one in half cannot take float32."""
        parameter = next(self.decoder.parameters(), z)
        return self.decoder(z.to(parameter.dtype) if parameter.is_floating_point() else z)

    @abstractmethod
    def decode(self, a: Float[Tensor, "batch length channels"]) -> Shaped[Tensor, "batch ..."]:
        """Observations from what `encode` gives."""
