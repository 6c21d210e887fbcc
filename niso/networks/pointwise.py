"""The same perceptron at every point: networks of functions on points that T moves, whatever the points are."""

from __future__ import annotations

from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor, nn

from niso.config import Strict, require


@dataclass(frozen=True)
class PointwiseConfig(Strict):
    """Size of `PointwiseNetwork`s."""

    channels: int = 64
    """Width of every hidden layer."""
    layers: int = 2
    """Hidden layers, each with its SiLU."""

    def __post_init__(self) -> None:
        require(self, "channels", positive=True)
        require(self, "layers")


class PointwiseNetwork(nn.Module):
    """[linear → SiLU] `layers` times, then linear, on the channels of each point: encoder and decoder alike.

    It commutes with every permutation of the points, and mixes none of them.
    """

    def __init__(self, inputs: int, outputs: int, config: PointwiseConfig) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        width = inputs
        for _ in range(config.layers):
            layers += [nn.Linear(width, config.channels), nn.SiLU()]
            width = config.channels
        self.layers = nn.Sequential(*layers, nn.Linear(width, outputs))

    def forward(self, x: Float[Tensor, "batch points inputs"]) -> Float[Tensor, "batch points outputs"]:
        return self.layers(x)
