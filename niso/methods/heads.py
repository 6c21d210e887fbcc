"""Classification heads on the features of a method (paper §4.4)."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn

from niso.methods.config import ClassifierConfig
from niso.networks import EigenspaceHead, SpectralHead


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


OF_OPERATORS = ("spectral", "eigenspaces")
"""Classifiers for maps that commute with an operator."""


def operator_head(
    config: ClassifierConfig,
    examples: Float[Tensor, "batch length channels"],
    classes: int,
    eigenvalues: Float[Tensor, " length"],
) -> nn.Module:
    """A classifier, one of `OF_OPERATORS`, that is invariant to the orthogonal maps that commute with the operator."""
    heads = {"spectral": (SpectralHead, config.spectral_head), "eigenspaces": (EigenspaceHead, config.eigenspace_head)}
    head, settings = heads[config.classifier]
    return RescaledHead(head(examples.shape[2], classes, eigenvalues, settings), examples)
