"""The autoencoder baseline: reconstruction alone, without regard to pairs (paper §5.1)."""

from __future__ import annotations

import torch
from jaxtyping import Float, Shaped
from torch import Tensor, nn

from niso import losses
from niso.autoencoding import Autoencoding
from niso.checks import Scalar
from niso.methods.config import ClassifierConfig
from niso.methods.heads.rescaled import RescaledHead
from niso.methods.method import Method, Networks
from niso.networks import MLP


class Autoencoder(Autoencoding):
    """Encoder and decoder with nothing in between. Its latents go to a plain `MLP` head, trained with augmentation."""

    def forward(self, x: Shaped[Tensor, "batch ..."]) -> Shaped[Tensor, "batch ..."]:
        """Reconstructions D(E(x))."""
        return self.decode(self.encode(x))


class AutoencoderObjective(nn.Module):
    """An `Autoencoder` and its loss |D(E(ψ)) − ψ|, a mean over entries: what the training loop pre-trains.

    Args:
        norm: of the error, see `niso.losses`.
    """

    def __init__(self, model: Autoencoder, norm: losses.Norm = "l1") -> None:
        super().__init__()
        self.model = model
        self.norm: losses.Norm = norm

    def forward(self, batch: tuple[Tensor, ...], progress: Scalar) -> dict[str, Float[Tensor, ""]]:
        """Loss terms of all observations in the batch: (ψ,), or every view of pairs and triplets alike."""
        x = torch.cat(batch)
        loss = losses.reconstruction(self.model(x), x, self.norm)
        return {"loss": loss, "reconstruction": loss.detach()}


class Reconstruction(Method):
    """The autoencoder baseline: reconstruction alone. Its head learns invariance from transformed examples."""

    has_maps = False
    isometric = False
    augmented_head = True
    reads = (Method.reads | {"mlp"}) - {"classifier"}
    model: Autoencoder

    def build(self, networks: Networks) -> Autoencoder:
        return Autoencoder(networks.encoder, networks.decoder)

    def objective(self) -> nn.Module:
        return AutoencoderObjective(self.model, self.config.norm)

    def head(
        self, config: ClassifierConfig, examples: Float[Tensor, "batch length channels"], classes: int
    ) -> nn.Module:
        return RescaledHead(MLP(examples.shape[1] * examples.shape[2], classes, config.mlp), examples)
