"""The same perceptron at every point: networks of functions on points that T moves, whatever the points are."""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor

from niso.networks.mlp import MLP


class PointwiseNetwork(MLP):
    """An `MLP` on the channels of each point: encoder and decoder alike.

    It commutes with every permutation of the points, and mixes none of them.
    """

    def forward(self, x: Float[Tensor, "batch points inputs"]) -> Float[Tensor, "batch points outputs"]:
        return self.layers(x)
