"""Features of the size that heads expect."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn


class RescaledHead(nn.Module):
    """A head on features divided by one number, because pre-training leaves the size of latents to chance.

    No symmetry is lost. A head without normalisation, like the paper's, hardly learns where features are of order 0.01.
    """

    scale: Tensor

    def __init__(self, head: nn.Module, examples: Float[Tensor, "batch length channels"]) -> None:
        super().__init__()
        self.head = head
        scale = examples.float().square().mean().sqrt().clamp_min(torch.finfo(torch.float32).tiny)
        self.register_buffer("scale", scale.cpu())

    def forward(self, features: Float[Tensor, "batch length channels"]) -> Float[Tensor, "batch classes"]:
        return self.head(features / self.scale)
