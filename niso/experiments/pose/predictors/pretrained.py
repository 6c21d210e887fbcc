"""Relative poses from frozen features of published pre-trained models (paper appendix)."""

from __future__ import annotations

from typing import ClassVar

from jaxtyping import Float
from torch import Tensor

from niso.errors import InputError
from niso.experiments.pose.predictors.predictor import Baseline
from niso.experiments.pose.presets import PoseConfig
from niso.geometry import se3
from niso.networks.pretrained import PretrainedFeatures, load_pretrained
from niso.networks.two_view import TwoViewDecoder


class FeaturePredictor(Baseline):
    """Frozen features of both frames → decoder of the two-view transformer → relative pose.

    Args:
        network: the frozen model. It is neither trained nor saved with the predictor, and computes on the device of
            the frames.
    """

    DECODER: ClassVar = frozenset({"transformer.channels", "transformer.heads", "transformer.decoder_blocks"})
    kind: ClassVar[str]
    """One of `niso.networks.pretrained.KINDS`, and the name of the setting that names the model."""

    def __init__(self, config: PoseConfig, network: PretrainedFeatures) -> None:
        super().__init__()
        self._network = (network,)  # no submodule
        self.feature_size = network.tokens * network.channels
        sizes = config.transformer
        self.decoder = TwoViewDecoder(
            sizes.channels, sizes.decoder_blocks, sizes.heads, se3.PARAMETERS, inputs=network.channels
        )

    @classmethod
    def build(cls, config: PoseConfig) -> FeaturePredictor:
        source: str | None = getattr(config, cls.kind)
        if not source:
            raise InputError(
                f"the method {cls.kind} needs --{cls.kind}, the folder of a pre-trained model (config.json, "
                f"preprocessor_config.json, model.safetensors), or its name on the Hugging Face hub and --download"
            )
        return cls(config, load_pretrained(source, cls.kind, config.download))

    @classmethod
    def available(cls, config: PoseConfig) -> bool:
        return bool(getattr(config, cls.kind))

    def features(self, frames: Float[Tensor, "batch 3 size size"]) -> Float[Tensor, "batch token channel"]:
        network = self._network[0].to(frames.device)
        return network(frames)

    def numbers(
        self, first: Float[Tensor, "batch token channel"], second: Float[Tensor, "batch token channel"]
    ) -> Float[Tensor, "batch 9"]:
        return self.decoder(first, second)


class DinoV2(FeaturePredictor):
    """Frozen features of both frames, by DINOv2 → transformer → relative pose."""

    kind = "dinov2"
    reads = FeaturePredictor.DECODER | {"dinov2", "download"}


class Beit(FeaturePredictor):
    """Frozen features of both frames, by BEiT → transformer → relative pose."""

    kind = "beit"
    reads = FeaturePredictor.DECODER | {"beit", "download"}
