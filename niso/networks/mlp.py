"""A plain multi-layer perceptron: the head where no equivariance is wanted (or left)."""

from __future__ import annotations

from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor, nn

from niso.config import Strict, require
from niso.networks.linear import Linear


@dataclass(frozen=True)
class MLPConfig(Strict):
    """Size of an `MLP`. The defaults are those of the autoencoder baseline's head; the pose head has 5 × 512."""

    layers: int = 2
    """Hidden layers, each with its SiLU; the linear output comes after them."""
    channels: int = 128
    """Width of every hidden layer."""

    def __post_init__(self) -> None:
        require(self, "layers")
        require(self, "channels", positive=True)


class MLP(nn.Module):
    """Everything but the batch axis flattened, then [linear → SiLU] `layers` times, then linear.

    Args:
        inputs: entries of one example after flattening, e.g. points · channels of latents, rank² of a map.
        outputs: numbers given for each example. ValueError where either is below 1.

    Source: paper appendix, "Baselines" (2 × 128) and the pose head (5 × 512); the activation is open there.
    """

    def __init__(self, inputs: int, outputs: int, config: MLPConfig | None = None) -> None:
        super().__init__()
        if inputs < 1 or outputs < 1:
            raise ValueError(f"an MLP needs at least one input and one output, got {inputs} and {outputs}")
        self.config = config = config or MLPConfig()
        layers: list[nn.Module] = []
        width = inputs
        for _ in range(config.layers):
            layers += [Linear(width, config.channels), nn.SiLU()]
            width = config.channels
        self.layers = nn.Sequential(*layers, Linear(width, outputs))

    def forward(self, x: Float[Tensor, "batch ..."]) -> Float[Tensor, "batch output"]:
        return self.layers(x.flatten(1))
