"""The trivial baseline: it predicts the same motion for all pairs of frames."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn

from niso.experiments.pose.predictors.predictor import Baseline
from niso.experiments.pose.presets import PoseConfig


class ConstantMotion(Baseline):
    """One translation for all pairs, without rotation: trajectories are straight lines. The translation is learned."""

    def __init__(self) -> None:
        super().__init__()
        self.translation = nn.Parameter(torch.tensor([0.0, 0.0, 0.1]))

    @classmethod
    def build(cls, config: PoseConfig) -> ConstantMotion:
        return cls()

    def numbers(
        self, first: Float[Tensor, "batch ..."], second: Float[Tensor, "batch ..."]
    ) -> Float[Tensor, "batch 9"]:
        return nn.functional.pad(self.translation, (0, 6)).expand(len(first), -1)
