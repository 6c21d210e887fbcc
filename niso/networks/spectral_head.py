"""Spectral heads: classification that no map commuting with the operator can change, though other maps can.

Coefficients (batch, rank, channels) belong to eigenfunctions with eigenvalues Λ. A layer diffuses each channel by the
operator, exp(−tΛ), and mixes channels by vector neurons. Both commute with every orthogonal τ that commutes with Λ.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import torch
from jaxtyping import Float
from torch import Tensor, nn

from niso.checks import check_instance, check_tensors
from niso.config import Strict, require
from niso.networks.invariants import InvariantHead, in_own_precision, inner_products
from niso.networks.mlp import MLP, MLPConfig
from niso.networks.standardise import Standardise
from niso.networks.vector_neurons import NormalisedVectorNeuron, VectorLinear

VARIANCE = 1e-5
"""Of inner products, below which they are not brought to deviation 1: vectors move while a head is trained, and running
means lag behind."""


@dataclass(frozen=True)
class SpectralHeadConfig(Strict):
    """Size of a `SpectralHead`."""

    layers: int = 1
    """Layers of diffusion and vector neurons."""
    channels: int = 64
    """Vectors in each of them."""
    invariant_channels: int = 24
    """Vectors m whose m (m + 1) / 2 inner products are taken at each diffusion time."""
    times: int = 4
    """Diffusion times of the inner products; the first is 0."""
    hidden: int = 256
    """Hidden units between the inner products and the classes."""
    longest: float = 0.2
    """Longest diffusion time that a head starts with; the shortest is a hundredth of it."""

    def __post_init__(self) -> None:
        require(self, "layers")
        require(self, "channels", "invariant_channels", "times", "hidden", "longest", positive=True)


class Diffusion(nn.Module):
    """Heat diffusion exp(−tΛ) a of each channel by its own time t, which is learned and positive.

    Args:
        channels: number of channels.
        longest: the times start evenly spaced in logarithm from a hundredth of this to this.

    Source: Sharp et al. 2022, "DiffusionNet", with the learned operator in place of the Laplace–Beltrami operator.
    """

    def __init__(self, channels: int, longest: float) -> None:
        super().__init__()
        self.log_times = nn.Parameter(torch.logspace(-2, 0, channels).mul(longest).log())

    def forward(
        self, a: Float[Tensor, "batch rank channels"], eigenvalues: Float[Tensor, " rank"]
    ) -> Float[Tensor, "batch rank channels"]:
        return a * torch.exp(-eigenvalues[:, None] * self.log_times.exp())


class SpectralHead(InvariantHead):
    """Class scores of coefficients (batch, rank, channels): the same for a and τ a where τ in O(rank) commutes with Λ.

    `layers` times: beside the vectors, their `Diffusion`s; normalised vector neurons mix both. Then m vectors v, and
    their inner products ⟨vᵢ, exp(−tΛ) vⱼ⟩ at several learned times t: those of soft eigenspaces. The products are
    standardised by their running mean and variance, to which `VARIANCE` is added: what varies by less stays small. A
    perceptron of one hidden layer gives the scores.

    Args:
        inputs: channels of the coefficients.
        classes: number of scores.
        eigenvalues: (rank,) diagonal of Λ, in any order. The head keeps them as they are now.
        config: sizes.

    Raises:
        TypeError: numbers that are not whole, eigenvalues that are not a tensor of floating-point numbers, or a config
            that is not a `SpectralHeadConfig`.
        ValueError: no input channel, class or eigenvalue.
    """

    eigenvalues: Tensor

    def __init__(
        self, inputs: int, classes: int, eigenvalues: Float[Tensor, " rank"], config: SpectralHeadConfig | None = None
    ) -> None:
        check_tensors(eigenvalues=(eigenvalues, "rank"))
        super().__init__(inputs, classes, len(eigenvalues))
        self.config = config = config or SpectralHeadConfig()
        check_instance("config", config, SpectralHeadConfig, "SpectralHeadConfig")
        values = eigenvalues.detach()
        self.register_buffer("eigenvalues", values - values.min())
        widths = [inputs] + [config.channels] * config.layers
        self.diffusions = nn.ModuleList(Diffusion(width, config.longest) for width in widths[:-1])
        self.layers = nn.ModuleList(NormalisedVectorNeuron(2 * i, o, skip=True) for i, o in pairwise(widths))
        self.vectors = VectorLinear(widths[-1], config.invariant_channels)
        self.soft_eigenspaces = Diffusion(config.times - 1, config.longest)
        count = config.times * config.invariant_channels * (config.invariant_channels + 1) // 2
        self.standardise = Standardise(count, VARIANCE)
        self.scores = MLP(count, classes, MLPConfig(layers=1, channels=config.hidden))

    @in_own_precision
    def forward(self, a: Float[Tensor, "batch rank channels"]) -> Float[Tensor, "batch classes"]:
        eigenvalues = self.eigenvalues.to(a.dtype)
        for diffuse, layer in zip(self.diffusions, self.layers, strict=True):
            a = layer(torch.cat([a, diffuse(a, eigenvalues)], dim=-1))
        v = self.vectors(a)
        half = torch.exp(-eigenvalues[:, None] * self.soft_eigenspaces.log_times.exp() / 2)  # (rank, times − 1)
        products = [inner_products(v), *(inner_products(v * weight[:, None]) for weight in half.unbind(1))]
        return self.scores(self.standardise(torch.cat(products, dim=-1) / a.shape[1]))
