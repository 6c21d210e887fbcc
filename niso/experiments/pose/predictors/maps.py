"""Relative poses read off τ, the map between the latents of two frames (paper §4.4)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache
from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor, nn

from niso.experiments.experiment import check_batch
from niso.experiments.pose.losses import CompositionObjective
from niso.experiments.pose.predictors.predictor import Predictor, Pretraining
from niso.experiments.pose.presets import PoseConfig
from niso.experiments.trial import tried_method
from niso.geometry import se3
from niso.methods.method import Method, Networks
from niso.networks import MLP
from niso.networks.occlusion import PassingOcclusion
from niso.training.loop import Phase

OF_ROOMS = frozenset({"shared_clips", "shared_motions", "rooms"})
"""Settings of the clips in which rooms share motions."""
READ = OF_ROOMS | {"shared", "composition", "completion", "conv", "mlp", "standardise", "skip", "signed"}
"""Settings that all methods with maps read here."""


class MapPredictor(Predictor):
    """The map τ of a method, pre-trained on pairs and frozen, flattened → MLP → relative pose.

    With `config.standardise` the MLP gets τ minus its mean over the pairs of `complete`, divided by its standard
    deviation there: maps of neighbouring frames differ little, and by an amount that depends on the method.

    Args:
        method: an untrained method that has maps.
    """

    kind: ClassVar[type[Method]]
    """The class of the method."""
    method: Method
    mean: Tensor
    scale: Tensor

    def __init__(self, config: PoseConfig, method: Method) -> None:
        super().__init__()
        self.config, self.method, self.model, self.group = config, method, method.model, method.group
        method.precision = lambda: self.precision()

    @classmethod
    def build(cls, config: PoseConfig) -> MapPredictor:
        method = tried_method(
            cls.kind,
            config,
            lambda: frame_networks(config),
            observed=f"frames of {config.size}×{config.size}",
            larger="a larger --size",
        )
        check_batch(method, config.training)
        if config.occlusion:
            check_batch(method, config.completion)
        return cls(config, method)

    @classmethod
    def settings(cls) -> frozenset[str]:
        return cls.kind.settings() | READ

    @classmethod
    def unread(cls, config: PoseConfig) -> dict[str, str]:
        nothing = "--shared is 0, and pre-training takes none of these clips"
        return cls.kind.unread(config) | ({} if cls.room_share(config) else dict.fromkeys(OF_ROOMS, nothing))

    @classmethod
    def room_share(cls, config: PoseConfig) -> float:
        return float(cls.kind.grouped) if config.shared is None else config.shared

    def pretraining(self, sampling: Pretraining) -> Iterator[Phase]:
        config, method = self.config, self.method
        objective: nn.Module = method.objective()
        if config.composition:
            objective = CompositionObjective(objective, method, config.composition)
        yield Phase("pretrain", objective, sampling.pretraining(), config.training)
        method.after_pretraining(sampling.train_pairs, sampling.seed)
        if config.occlusion:
            occlusion = PassingOcclusion(config.occlusion, config.confidence == "given", config.skip + 1)
            yield Phase("completion", method.completion(occlusion), sampling.completion(), config.completion)

    @torch.no_grad()
    def complete(self, pairs: Iterable[tuple[Tensor, Tensor]]) -> None:
        standardise = self.config.standardise
        self.model.requires_grad_(False).eval()
        a, b = map(torch.cat, zip(*(map(self.method.encode, pair) for pair in pairs), strict=True))
        self.feature_size = a[0].numel()
        maps = self.method.solve(a, b)
        mean = maps.mean(0)
        spread = (maps - mean).square().mean().sqrt().clamp_min(torch.finfo(maps.dtype).tiny)
        self.register_buffer("mean", mean if standardise else torch.zeros_like(mean))
        self.register_buffer("scale", spread if standardise else torch.ones_like(spread))
        self.head = MLP(maps.shape[-1] ** 2, se3.PARAMETERS, self.config.mlp).to(maps.device)

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


@cache
def on_maps(method: type[Method]) -> type[MapPredictor]:
    """The predictor on the maps of a method, which it is described as."""

    class Of(MapPredictor):
        __doc__ = method.__doc__
        kind = method

    return Of


def frame_networks(config: PoseConfig) -> Networks:
    """Untrained networks for frames of the configured size.

    Raises:
        ValueError: the networks do not fit frames of this size.
    """
    networks = Networks.convolutional(config.conv, (config.size, config.size), 3)
    return networks.for_partial_views(config.confidence, 3)
