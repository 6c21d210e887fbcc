"""A head on the invariants of soft eigenspaces, standardised: classification where invariants hardly vary."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from niso.checks import check_instance, check_tensors
from niso.config import Strict, require
from niso.linalg import full_precision
from niso.networks.invariants import InvariantHead, in_own_precision, inner_products
from niso.networks.mlp import MLP, MLPConfig
from niso.networks.standardise import Standardise


@dataclass(frozen=True)
class EigenspaceHeadConfig(Strict):
    """Size of an `EigenspaceHead`."""

    eigenspaces: int = 6
    """Soft eigenspaces, at most one for each eigenvalue."""
    layers: int = 1
    """Hidden layers between the inner products and the classes."""
    hidden: int = 256
    """Units in each of them."""

    def __post_init__(self) -> None:
        require(self, "layers")
        require(self, "eigenspaces", "hidden", positive=True)


@full_precision
def soft_eigenspaces(eigenvalues: Float[Tensor, " rank"], count: int) -> Float[Tensor, "eigenspaces rank"]:
    """How far each eigenvalue belongs to each of so many soft eigenspaces: shares, which add up to 1.

    They are centred at evenly spaced quantiles of the eigenvalues, so that many equal ones have several, which are the
    same. Their Gaussian sides are as wide as the range of the eigenvalues by the number of eigenspaces.
    """
    count = min(count, len(eigenvalues))
    levels = (torch.arange(count, device=eigenvalues.device, dtype=eigenvalues.dtype) + 0.5) / count
    centres = eigenvalues.quantile(levels)
    width = (eigenvalues.max() - eigenvalues.min()).clamp_min(1e-6) / count
    return (-((eigenvalues - centres[:, None]) / width).square()).softmax(0)


class EigenspaceHead(InvariantHead):
    """Class scores of coefficients (batch, rank, channels): the same for a and τ a where τ in O(rank) commutes with Λ.

    The inner products aᵀ W a of the channels, with diagonal W of soft eigenspaces, each minus its mean and divided by
    its deviation in training, then a perceptron. Nothing is learned before the standardisation: invariants
    of pairs may differ by a thousandth of themselves from digit to digit, and what mixes them would not see it.

    Args:
        inputs: channels of the coefficients.
        classes: number of scores.
        eigenvalues: (rank,) diagonal of Λ, in any order. The head keeps them as they are now.

    Raises:
        TypeError: numbers that are not whole, eigenvalues that are not a tensor of floating-point numbers, or a config
            that is not an `EigenspaceHeadConfig`.
        ValueError: no input channel, class or eigenvalue.
    """

    shares: Tensor

    def __init__(
        self, inputs: int, classes: int, eigenvalues: Float[Tensor, " rank"], config: EigenspaceHeadConfig | None = None
    ) -> None:
        check_tensors(eigenvalues=(eigenvalues, "rank"))
        super().__init__(inputs, classes, len(eigenvalues))
        self.config = config = config or EigenspaceHeadConfig()
        check_instance("config", config, EigenspaceHeadConfig, "EigenspaceHeadConfig")
        self.register_buffer("shares", soft_eigenspaces(eigenvalues.detach(), config.eigenspaces))
        count = len(self.shares) * inputs * (inputs + 1) // 2
        self.standardise = Standardise(count, 1e-12)
        self.scores = MLP(count, classes, MLPConfig(config.layers, config.hidden))

    @in_own_precision
    def forward(self, a: Float[Tensor, "batch rank channels"]) -> Float[Tensor, "batch classes"]:
        roots = self.shares.to(a.dtype).sqrt()
        products = [inner_products(a * root[:, None]) for root in roots.unbind(0)]
        return self.scores(self.standardise(torch.cat(products, dim=-1)))
