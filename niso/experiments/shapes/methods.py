"""The methods of the shapes experiment."""

from __future__ import annotations

from dataclasses import replace

import torch
from jaxtyping import Float
from torch import Tensor

from niso.data.shapes.prepared import PreparedShapes
from niso.experiments.shapes.presets import ShapesConfig
from niso.methods import common as methods
from niso.methods.common import Kind, Model
from niso.networks import ConvDecoder, ConvEncoder

METHODS: dict[str, Kind] = {"niso": "isometry", "nft": "fourier", "autoencoder": "autoencoder"}


def make_model(config: ShapesConfig, kind: Kind, shapes: PreparedShapes) -> tuple[Model, tuple[int, int]]:
    """An untrained model for maps like these, and its latent grid.

    Raises:
        ValueError: the networks do not fit the maps, or the rank exceeds the latent points.
    """
    conv = replace(config.conv, image_size=(shapes.height, shapes.width), image_channels=shapes.channels)
    relative = config.relative_equivariance is not None
    encoder, decoder = ConvEncoder(conv), ConvDecoder(conv)
    return methods.make_model(config, kind, encoder, decoder, conv.points, conv.latent_channels, relative), conv.grid


def train_features_only(model: Model, examples: Float[Tensor, "batch channels height width"]) -> None:
    """Take `requires_grad` from what `model.encode` does not depend on: the decoder, eigenvalues, NFT's lifting.

    Weight decay would change these, and several processes would wait for their gradients.
    """
    parameters = list(model.parameters())
    gradients = torch.autograd.grad(model.encode(examples).sum(), parameters, allow_unused=True)
    for parameter, gradient in zip(parameters, gradients, strict=True):
        parameter.requires_grad_(gradient is not None)
