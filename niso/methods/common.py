"""The methods that homNIST and shapes compare: models, objectives, heads, and the figures of held-out pairs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn

from niso import metrics
from niso.methods import (
    Autoencoder,
    AutoencoderObjective,
    FourierObjective,
    NeuralFourierTransform,
    OrthogonalAutoencoder,
    OrthogonalObjective,
)
from niso.methods.config import MethodConfig
from niso.model import IsometryObjective, NeuralIsometry
from niso.networks import MLP, VectorNeuronHead
from niso.spectrum import LearnedSpectrum

Model = NeuralIsometry | NeuralFourierTransform | OrthogonalAutoencoder | Autoencoder
Kind = Literal["isometry", "fourier", "orthogonal", "autoencoder"]


def make_model(
    config: MethodConfig, kind: Kind, encoder: nn.Module, decoder: nn.Module, points: int, channels: int, relative: bool
) -> Model:
    """An untrained model round networks with latent functions (batch, points, channels).

    Args:
        relative: whether the equivariance loss is relative to the latents' spread.

    Raises:
        ValueError: the rank exceeds the latent points.
    """
    if kind == "autoencoder":
        return Autoencoder(encoder, decoder)
    if kind == "fourier":
        rank, reduced = (channels, None) if config.nft_tall else (config.rank, points)
        return NeuralFourierTransform(encoder, decoder, rank, reduced)
    if kind == "orthogonal":
        return OrthogonalAutoencoder(encoder, decoder, config.norm, relative)
    spectrum = LearnedSpectrum(points, config.rank, config.eigenvalues, config.damping, config.eigenfunctions)
    return NeuralIsometry(
        encoder,
        decoder,
        spectrum,
        special=config.special,
        damping=config.damping,
        spectral_dropout=config.spectral_dropout,
        norm=config.norm,
        relative=relative,
    )


def make_objective(
    config: MethodConfig,
    model: Model,
    equivariance: bool = True,
    multiplicity: bool = True,
    group: int = 1,
    leave_one_out: bool = True,
    contrastive: float = 0.0,
) -> nn.Module:
    """What pre-training minimises.

    Args:
        equivariance, multiplicity: False leaves that term of NIso's loss out.
    """
    if isinstance(model, Autoencoder):
        return AutoencoderObjective(model)
    if isinstance(model, NeuralFourierTransform):
        norm: Literal["absolute", "squared"] = "absolute" if config.norm == "l1" else "squared"
        return FourierObjective(model, norm, "both")
    weight = ((config.relative_equivariance if model.relative else config.equivariance) or 0.0) * equivariance
    if isinstance(model, OrthogonalAutoencoder):
        return OrthogonalObjective(model, weight)
    return IsometryObjective(
        model,
        weight,
        config.multiplicity * multiplicity,
        config.multiplicity_decay,
        group=group,
        leave_one_out=leave_one_out,
        contrastive=contrastive,
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


def make_head(
    config: MethodConfig, model: Model, examples: Float[Tensor, "batch length channels"], classes: int
) -> nn.Module:
    """A classifier of features like these: invariant to maps of the vectors, or the autoencoder's plain one."""
    _, length, channels = examples.shape
    if isinstance(model, Autoencoder):
        head: nn.Module = MLP(length * channels, classes, config.mlp)
    else:
        head = VectorNeuronHead(channels, classes, config.vector_neurons)
    scale = examples.float().square().mean().sqrt().clamp_min(torch.finfo(torch.float32).tiny)
    return RescaledHead(head, scale.cpu())


@torch.no_grad()
def pair_figures(model: Model, batches: Iterable[tuple[Tensor, ...]]) -> dict[str, float]:
    """Figures of held-out pairs: of the latents and maps where the method has any, and of what is decoded.

    Args:
        batches: observations ψ and Tψ and, for the relative map error, others ψ′ and Tψ′ under the same T.
    """
    pixels: list[Tensor] = []
    parts: list[tuple[Tensor, ...]] = []
    for x, tx, *others in batches:
        b = model.encode(tx)
        if isinstance(model, Autoencoder):
            predicted = model.decode(b)
        else:
            a, tau = model.encode(x), model.map_between(x, tx)
            predicted = model.decode(tau @ a)
            parts.append((a, b, tau, *([model.map_between(others[0], others[1])] if others else [])))
        pixels.append((predicted - tx).abs().mean((1, 2, 3)))
    figures = {"reconstruction_error": torch.cat(pixels).mean().item()}
    if parts:
        a, b, tau, *stolen = (torch.cat(part) for part in zip(*parts, strict=True))
        common = b.mean(0, keepdim=True)
        figures |= {
            "equivariance_error": metrics.equivariance_error(tau, a, b).mean().item(),
            "equivariance_error_centred": metrics.equivariance_error(tau, a, b, common).mean().item(),
        }
        if stolen:
            figures["relative_map_error"] = metrics.equivariance_error(stolen[0], a, b).mean().item()
    return figures
