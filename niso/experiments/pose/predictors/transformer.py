"""Relative poses from both frames by a transformer that is trained from scratch (paper appendix)."""

from __future__ import annotations

from dataclasses import fields

from jaxtyping import Float
from torch import Tensor

from niso.experiments.pose.predictors.predictor import Baseline
from niso.experiments.pose.presets import PoseConfig
from niso.geometry import se3
from niso.networks.two_view import TwoViewConfig, TwoViewTransformer


class FramePredictor(Baseline):
    """Both frames → transformer → relative pose."""

    reads = frozenset(f"transformer.{field.name}" for field in fields(TwoViewConfig))

    def __init__(self, config: PoseConfig) -> None:
        super().__init__()
        self.network = TwoViewTransformer(config.transformer, (config.size, config.size), se3.PARAMETERS)

    @classmethod
    def build(cls, config: PoseConfig) -> FramePredictor:
        return cls(config)

    def numbers(
        self, first: Float[Tensor, "batch 3 size size"], second: Float[Tensor, "batch 3 size size"]
    ) -> Float[Tensor, "batch 9"]:
        return self.network(first, second)
