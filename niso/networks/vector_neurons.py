"""Vector-neuron heads: classification that no orthogonal map of the latent coefficients can change.

Coefficients (batch, rank, channels) are read as `channels` vectors of R^rank. A layer mixes vectors, never their
entries, so it commutes with every τ in O(rank) acting on axis 1; inner products of vectors do not see τ at all.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn

from niso.checks import check_choice, check_instance
from niso.config import Strict, require
from niso.networks.invariants import InvariantHead, in_own_precision, inner_products
from niso.networks.linear import Linear

Variant = Literal["paper", "released"]
"""Which of the two published heads: the paper's text, or the released code."""

EPSILON = 1e-6  # beside squared lengths in denominators, in both published heads


@dataclass(frozen=True)
class VectorNeuronConfig(Strict):
    """Size of a `VectorNeuronHead`. The defaults are the paper's for homNIST."""

    variant: Variant = "paper"
    """The head of the paper's text or of the released code, see `VectorNeuronHead`."""
    layers: int = 2
    """Vector-neuron layers before the output layer."""
    channels: int = 128
    """Vectors in each of them."""
    invariant_channels: int = 64
    """Vectors m whose m (m + 1) / 2 inner products are the invariant features."""
    leak: float = 0.2
    """Share α of its input that the nonlinearity always lets through ("paper" only)."""
    expansion: int = 4
    """Hidden units per invariant feature between them and the classes ("released" only)."""

    def __post_init__(self) -> None:
        check_choice("variant", self.variant, Variant)
        require(self, "layers", "channels", "invariant_channels", "expansion", positive=True)
        require(self, "leak", most=1.0)

    @property
    def invariants(self) -> int:
        """Number of invariant features."""
        return self.invariant_channels * (self.invariant_channels + 1) // 2


class VectorLinear(Linear):
    """Mixes vectors: x W, without a bias, which would single out a direction. Weights start at N(0, 1/inputs)."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__(inputs, outputs, bias=False)
        nn.init.normal_(self.weight, std=inputs**-0.5)


class VectorNeuron(nn.Module):
    """The vector-neuron layer p − (1 − α) min(⟨p, d⟩, 0) d / (|d|² + ε) with p = x W and directions d = x U.

    Each vector p keeps its part along d where that part points forwards, and a share α of it otherwise: the
    leaky ReLU of Deng et al. 2021 with a learned direction for every channel.
    """

    def __init__(self, inputs: int, outputs: int, leak: float = 0.2) -> None:
        super().__init__()
        self.feature = VectorLinear(inputs, outputs)
        self.direction = VectorLinear(inputs, outputs)
        self.leak = leak

    def forward(self, x: Float[Tensor, "batch rank inputs"]) -> Float[Tensor, "batch rank outputs"]:
        p, d = self.feature(x), self.direction(x)
        backwards = (p * d).sum(1, keepdim=True).clamp_max(0)
        return p - (1 - self.leak) * backwards / (d.square().sum(1, keepdim=True) + EPSILON) * d


class SmoothVectorNeuron(VectorNeuron):
    """The released code's layer q + SiLU(−⟨q, r⟩) r / (|r|² + ε) with q = x W and r = x U."""

    def forward(self, x: Float[Tensor, "batch rank inputs"]) -> Float[Tensor, "batch rank outputs"]:
        q, r = self.feature(x), self.direction(x)
        along = nn.functional.silu(-(q * r).sum(1, keepdim=True))
        return q + along / (r.square().sum(1, keepdim=True) + EPSILON) * r


class VectorNorm(nn.Module):
    """Scales each vector: x · scale / √(mean of squared entries + 1e-6 + |ε|), scale and ε learned (released code)."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(channels))
        self.epsilon = nn.Parameter(torch.tensor(1e-3))

    def forward(self, x: Float[Tensor, "batch rank channels"]) -> Float[Tensor, "batch rank channels"]:
        square = x.square().mean(1, keepdim=True)
        return x * (self.scale * torch.rsqrt(square + EPSILON + self.epsilon.abs()))


class VectorNeuronHead(InvariantHead):
    """Class scores of coefficients (batch, rank, channels) that are the same for a and τ a, for all τ in O(rank).

    - "paper": `layers` `VectorNeuron`s of `channels` vectors, a `VectorLinear` to m = `invariant_channels`
      vectors, their m (m + 1) / 2 inner products divided by the rank, and a linear layer to the classes. Without
      normalisation: the scores keep the latents' scale, as in the text. By default 2,080 features, and 69,962
      parameters for 32 channels and 10 classes.
    - "released": `layers` times [`VectorNorm` → `SmoothVectorNeuron`], a `VectorLinear` skip around each but the
      last; the same once more to m vectors, without a skip; their inner products; a dense layer of `expansion`
      units per feature, SiLU, and a linear layer to the classes. The released configuration names twice the
      layers that are run; here `layers` counts those that are.

    Args:
        inputs: channels of the coefficients.
        classes: number of scores.
        config: sizes.

    Raises:
        TypeError: numbers that are not whole, or a config that is not a `VectorNeuronConfig`.
        ValueError: no input channel or class.

    Source: paper §4.4 and appendix "Homography-perturbed MNIST"; Deng et al. 2021. The paper leaves open how many
    vectors the inner products are taken of; m = 64 is the released code's.
    """

    def __init__(self, inputs: int, classes: int, config: VectorNeuronConfig | None = None) -> None:
        super().__init__(inputs, classes)
        self.config = config = config or VectorNeuronConfig()
        check_instance("config", config, VectorNeuronConfig, "VectorNeuronConfig")
        widths = [inputs] + [config.channels] * config.layers
        sizes = list(pairwise(widths))
        last, vectors = config.channels, config.invariant_channels
        if config.variant == "paper":
            layers: list[nn.Module] = [VectorNeuron(i, o, config.leak) for i, o in sizes]
            self.vectors = nn.Sequential(*layers, VectorLinear(last, vectors))
            self.scores: nn.Module = Linear(config.invariants, classes)
        else:
            layers = [NormalisedVectorNeuron(i, o, skip=n + 1 < len(sizes)) for n, (i, o) in enumerate(sizes)]
            self.vectors = nn.Sequential(*layers, NormalisedVectorNeuron(last, vectors, skip=False))
            hidden = config.expansion * config.invariants
            self.scores = nn.Sequential(Linear(config.invariants, hidden), nn.SiLU(), Linear(hidden, classes))

    @in_own_precision
    def forward(self, a: Float[Tensor, "batch rank channels"]) -> Float[Tensor, "batch classes"]:
        features = inner_products(self.vectors(a))
        return self.scores(features / a.shape[1] if self.config.variant == "paper" else features)


class NormalisedVectorNeuron(nn.Module):
    """A layer of the released head: [norm → smooth neuron], with or without a linear skip around both."""

    def __init__(self, inputs: int, outputs: int, skip: bool) -> None:
        super().__init__()
        self.layers = nn.Sequential(VectorNorm(inputs), SmoothVectorNeuron(inputs, outputs))
        self.skip = VectorLinear(inputs, outputs) if skip else None

    def forward(self, x: Float[Tensor, "batch rank inputs"]) -> Float[Tensor, "batch rank outputs"]:
        return self.layers(x) if self.skip is None else self.layers(x) + self.skip(x)
