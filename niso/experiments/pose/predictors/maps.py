"""Relative poses read off τ, the map between the latents of two frames (paper §4.4)."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from niso.experiments.pose.predictors.predictor import Predictor
from niso.experiments.pose.presets import PoseConfig
from niso.geometry import se3
from niso.methods.method import Method
from niso.networks import MLP


class MapPredictor(Predictor):
    """The map τ of a frozen method, flattened → MLP → relative pose.

    With `config.standardise` the MLP gets τ minus its mean over `examples`, divided by its standard deviation there:
    maps of neighbouring frames differ little, and by an amount that depends on the method.

    Args:
        method: a pre-trained method that has maps; its model is frozen.
        examples: coefficients of frames and of the second frames of these pairs.
    """

    mean: Tensor
    scale: Tensor

    def __init__(self, config: PoseConfig, method: Method, examples: tuple[Tensor, Tensor]) -> None:
        super().__init__()
        self.method = method
        self.model = method.model.requires_grad_(False).eval()
        with torch.no_grad():
            maps = method.solve(*examples)
        self.feature_size = examples[0][0].numel()
        mean = maps.mean(0)
        spread = (maps - mean).square().mean().sqrt().clamp_min(torch.finfo(maps.dtype).tiny)
        self.register_buffer("mean", mean if config.standardise else torch.zeros_like(mean))
        self.register_buffer("scale", spread if config.standardise else torch.ones_like(spread))
        self.head = MLP(maps.shape[-1] ** 2, se3.PARAMETERS, config.mlp)

    def train(self, mode: bool = True) -> MapPredictor:
        super().train(mode)
        self.model.eval()
        return self

    @torch.no_grad()
    def features(self, frames: Float[Tensor, "batch 3 size size"]) -> Float[Tensor, "batch rank channels"]:
        return self.method.encode(frames)

    def numbers(
        self, first: Float[Tensor, "batch rank channels"], second: Float[Tensor, "batch rank channels"]
    ) -> Float[Tensor, "batch 9"]:
        return self.head((self.maps(first, second) - self.mean) / self.scale)

    @torch.no_grad()
    def maps(
        self, first: Float[Tensor, "batch rank channels"], second: Float[Tensor, "batch rank channels"]
    ) -> Float[Tensor, "batch rank rank"]:
        return self.method.solve(first, second)
