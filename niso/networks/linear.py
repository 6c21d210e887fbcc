"""The linear layer of all networks here."""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor, nn

from niso.linalg.products import linear


class Linear(nn.Linear):
    """`nn.Linear`, whose large products go to oneDNN on a CPU."""

    def forward(self, x: Float[Tensor, "*batch inputs"]) -> Float[Tensor, "*batch outputs"]:
        return linear(x, self.weight, self.bias)
