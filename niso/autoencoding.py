"""What all models have in common: observations to coefficients, and back."""

from __future__ import annotations

from jaxtyping import Float, Shaped
from torch import Tensor, nn


class Autoencoding(nn.Module):
    """A model around an encoder to latent functions and a decoder from them; by default with nothing in between."""

    def __init__(self, encoder: nn.Module, decoder: nn.Module) -> None:
        super().__init__()
        self.encoder = encoder
        self.decoder = decoder

    def encode(self, x: Shaped[Tensor, "batch ..."]) -> Float[Tensor, "batch length channels"]:
        """Coefficients of observations, or whole latent functions E(x), as heads get them."""
        return self.encoder(x)

    def decoded(self, z: Float[Tensor, "batch points channels"]) -> Shaped[Tensor, "batch ..."]:
        """Observations from latent functions, in the decoder's precision: one in half cannot take float32."""
        parameter = [*self.decoder.parameters(), z][0]  # torch 2.6 cannot export a `next` with a tensor
        return self.decoder(z.to(parameter.dtype) if parameter.is_floating_point() else z)

    def decode(self, a: Float[Tensor, "batch length channels"]) -> Shaped[Tensor, "batch ..."]:
        """Observations from what `encode` gives."""
        return self.decoded(a)
