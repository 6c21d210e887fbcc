"""The autoencoder baseline: reconstruction alone, without regard to pairs (paper §5.1)."""

from __future__ import annotations

import torch
from jaxtyping import Float, Shaped
from torch import Tensor, nn

from niso import losses


class Autoencoder(nn.Module):
    """Encoder and decoder with nothing in between. Its latents go to a plain `MLP` head, trained with augmentation."""

    def __init__(self, encoder: nn.Module, decoder: nn.Module) -> None:
        super().__init__()
        self.encoder = encoder
        self.decoder = decoder

    def encode(self, x: Shaped[Tensor, "batch ..."]) -> Float[Tensor, "batch points channels"]:
        """Latent functions E(x), whole: what the head gets."""
        return self.encoder(x)

    def decode(self, z: Float[Tensor, "batch points channels"]) -> Shaped[Tensor, "batch ..."]:
        """Observations from latent functions."""
        return self.decoder(z)

    def forward(self, x: Shaped[Tensor, "batch ..."]) -> Shaped[Tensor, "batch ..."]:
        """Reconstructions D(E(x))."""
        return self.decode(self.encode(x))


class AutoencoderObjective(nn.Module):
    """An `Autoencoder` and its loss |D(E(ψ)) − ψ|, a mean over entries: what the training loop pre-trains."""

    def __init__(self, model: Autoencoder) -> None:
        super().__init__()
        self.model = model

    def forward(self, batch: tuple[Tensor, ...], progress: float) -> dict[str, Float[Tensor, ""]]:
        """Loss terms of all observations in the batch: (ψ,), or every view of pairs and triplets alike."""
        x = torch.cat(batch)
        loss = losses.reconstruction(self.model(x), x)
        return {"loss": loss, "reconstruction": loss.detach()}
