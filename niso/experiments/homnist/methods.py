"""The methods of the homNIST experiment: models, and what each is pre-trained to minimise."""

from __future__ import annotations

from dataclasses import dataclass, replace

from torch import nn

from niso.experiments.homnist.presets import HomnistConfig
from niso.methods import common as methods
from niso.methods.common import Kind, Model
from niso.networks import ConvDecoder, ConvEncoder, ViTDecoder, ViTEncoder

CLASSES = 10


@dataclass(frozen=True)
class Method:
    """What tells one method from another."""

    model: Kind = "isometry"
    order: int = 2
    """Views of a digit: 2 are pairs, 3 triplets."""
    grouped: bool = False
    equivariance: bool = True
    multiplicity: bool = True
    contrastive: bool = False

    def relative(self, config: HomnistConfig) -> bool:
        """Whether the equivariance loss is relative to the latents' spread."""
        return config.relative_equivariance is not None and (self.grouped or self.order == 3)


METHODS = {
    "niso": Method(),
    "niso-triplet": Method(order=3),
    "niso-group": Method(grouped=True),
    "niso-contrastive": Method(contrastive=True),
    "niso-no-equivariance": Method(equivariance=False),
    "niso-no-multiplicity": Method(multiplicity=False),
    "nft": Method("fourier"),
    "nft-triplet": Method("fourier", order=3),
    "autoencoder": Method("autoencoder"),
}


def make_model(config: HomnistConfig, method: Method, side: int) -> tuple[Model, tuple[int, int]]:
    """An untrained model for images of side × side pixels, and its latent grid.

    Raises:
        ValueError: the networks do not fit the images, or the rank exceeds the latent points.
    """
    encoder: nn.Module
    decoder: nn.Module
    if config.architecture == "conv":
        conv = replace(config.conv, image_size=(side, side))
        grid, channels = conv.grid, conv.latent_channels
        encoder, decoder = ConvEncoder(conv), ConvDecoder(conv)
    else:
        vit = replace(config.vit, image_size=(side, side))
        grid, channels = vit.grid, vit.latent_channels
        encoder, decoder = ViTEncoder(vit), ViTDecoder(vit)
    points = grid[0] * grid[1]
    relative = method.relative(config)
    return methods.make_model(config, method.model, encoder, decoder, points, channels, relative), grid


def make_objective(config: HomnistConfig, method: Method, model: Model) -> nn.Module:
    """What pre-training minimises."""
    return methods.make_objective(
        config,
        model,
        method.equivariance,
        method.multiplicity,
        config.group if method.grouped else 1,
        config.leave_one_out,
        config.contrastive * method.contrastive,
    )
