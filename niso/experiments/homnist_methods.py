"""The methods of the homNIST experiment: models, what each is pre-trained to minimise, and their heads."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn

from niso.baselines import Autoencoder, AutoencoderObjective, FourierObjective, NeuralFourierTransform
from niso.experiments.homnist_config import HomnistConfig
from niso.model import IsometryObjective, NeuralIsometry
from niso.networks import MLP, ConvDecoder, ConvEncoder, VectorNeuronHead, ViTDecoder, ViTEncoder
from niso.spectrum import LearnedSpectrum

CLASSES = 10


@dataclass(frozen=True)
class Method:
    """What tells one method from another."""

    model: Literal["isometry", "fourier", "autoencoder"] = "isometry"
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

Model = NeuralIsometry | NeuralFourierTransform | Autoencoder


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
    if method.model == "autoencoder":
        return Autoencoder(encoder, decoder), grid
    if method.model == "fourier":
        rank, reduced = (channels, None) if config.nft_tall else (config.rank, points)
        return NeuralFourierTransform(encoder, decoder, rank, reduced), grid
    spectrum = LearnedSpectrum(points, config.rank, config.eigenvalues, config.damping, config.eigenfunctions)
    model = NeuralIsometry(
        encoder,
        decoder,
        spectrum,
        special=config.special,
        damping=config.damping,
        spectral_dropout=config.spectral_dropout,
        norm=config.norm,
        relative=method.relative(config),
    )
    return model, grid


def make_objective(config: HomnistConfig, method: Method, model: Model) -> nn.Module:
    """What pre-training minimises."""
    if isinstance(model, Autoencoder):
        return AutoencoderObjective(model)
    if isinstance(model, NeuralFourierTransform):
        norm: Literal["absolute", "squared"] = "absolute" if config.norm == "l1" else "squared"
        return FourierObjective(model, norm, "both")
    equivariance = config.relative_equivariance if method.relative(config) else config.equivariance
    return IsometryObjective(
        model,
        (equivariance or 0.0) * method.equivariance,
        config.multiplicity * method.multiplicity,
        config.multiplicity_decay,
        group=config.group if method.grouped else 1,
        leave_one_out=config.leave_one_out,
        contrastive=config.contrastive * method.contrastive,
    )


class RescaledHead(nn.Module):
    """A head on features divided by one number: how small latents are is left to chance by pre-training.

    No symmetry is lost. A head without normalisation, as the paper's, hardly learns where features are of order 0.01.
    """

    scale: Tensor

    def __init__(self, head: nn.Module, scale: Float[Tensor, ""]) -> None:
        super().__init__()
        self.head = head
        self.register_buffer("scale", scale)

    def forward(self, features: Float[Tensor, "batch length channels"]) -> Float[Tensor, "batch classes"]:
        return self.head(features / self.scale)


def make_head(config: HomnistConfig, model: Model, examples: Float[Tensor, "batch length channels"]) -> nn.Module:
    """A classifier of features like these: invariant to maps of the vectors, or the autoencoder's plain one."""
    _, length, channels = examples.shape
    if isinstance(model, Autoencoder):
        head: nn.Module = MLP(length * channels, CLASSES, config.mlp)
    else:
        head = VectorNeuronHead(channels, CLASSES, config.vector_neurons)
    scale = examples.float().square().mean().sqrt().clamp_min(torch.finfo(torch.float32).tiny)
    return RescaledHead(head, scale.cpu())
