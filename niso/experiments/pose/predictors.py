"""The methods of the pose experiment: backbones to pre-train, and predictors of relative poses.

A predictor takes what its `features` makes of two batches of frames and gives the pose of the second camera as the
first one sees it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import replace
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn

from niso.errors import InputError
from niso.experiments.pose.presets import PoseConfig
from niso.functional_map import isometric_map
from niso.geometry import se3
from niso.linalg import full_precision
from niso.methods import NeuralFourierTransform, OrthogonalAutoencoder, orthogonal_map
from niso.methods import common as methods
from niso.methods.common import Kind
from niso.model import NeuralIsometry
from niso.networks import MLP, ConvDecoder, ConvEncoder
from niso.networks.pretrained import PretrainedFeatures, load_pretrained
from niso.networks.two_view import TwoViewDecoder, TwoViewTransformer


class Method(NamedTuple):
    """A method.

    Attributes:
        kind: of the backbone that is pre-trained; None where there is none.
        operator: False leaves the operator out: τ is any orthogonal matrix.
        features: the kind of model whose frozen features are read, one of `niso.networks.pretrained.KINDS`.
    """

    kind: Kind | None = None
    operator: bool = True
    features: str | None = None


METHODS = {
    "niso": Method("isometry"),
    "niso-no-operator": Method("isometry", operator=False),
    "niso-no-basis": Method("orthogonal"),
    "nft": Method("fourier"),
    "vit": Method(),
    "dinov2": Method(features="dinov2"),
    "beit": Method(features="beit"),
    "constant-motion": Method(),
}

Backbone = NeuralIsometry | NeuralFourierTransform | OrthogonalAutoencoder


def make_backbone(config: PoseConfig, method: Method) -> tuple[Backbone, tuple[int, int]]:
    """An untrained model for frames like these, and its latent grid.

    Without the operator the paper solves for τ between the encodings themselves: here niso-no-basis, with τ of N × N
    for N latent points. In niso-no-operator mass and the k functions that latents are projected to stay, learned.

    Raises:
        ValueError: the networks do not fit the frames, or the rank exceeds the latent points.
    """
    assert method.kind is not None
    conv = replace(config.conv, image_size=(config.size, config.size), image_channels=3)
    relative = config.relative_equivariance is not None
    encoder, decoder = ConvEncoder(conv), ConvDecoder(conv)
    model = methods.make_model(config, method.kind, encoder, decoder, conv.points, conv.latent_channels, relative)
    assert isinstance(model, Backbone)
    if isinstance(model, NeuralIsometry) and not method.operator:
        model.mask = None
    if isinstance(model, OrthogonalAutoencoder):
        model.complete = config.complete
    return model, conv.grid


def load_features(config: PoseConfig, method: str) -> PretrainedFeatures | None:
    """The pre-trained model whose features a method reads; None where it reads none.

    Raises:
        InputError: the configuration names no model, or it cannot be loaded.
    """
    kind = METHODS[method].features
    if kind is None:
        return None
    source: str | None = getattr(config, kind)
    if not source:
        raise InputError(
            f"the method {method} needs --{kind}, the folder of a pre-trained model (config.json, "
            f"preprocessor_config.json, model.safetensors), or its name on the Hugging Face hub and --download"
        )
    return load_pretrained(source, kind, config.download)


@torch.no_grad()
def encode(model: Backbone, frames: Float[Tensor, "batch 3 size size"]) -> Float[Tensor, "batch rank channels"]:
    """Latents of frames, never below float32; without gradients."""
    latents = model.encode(frames)
    return latents.to(torch.promote_types(latents.dtype, torch.float32))


def maps_between(
    model: Backbone, a: Float[Tensor, "batch rank channels"], b: Float[Tensor, "batch rank channels"]
) -> Float[Tensor, "batch rank rank"]:
    """Maps from a to b, both as `model.encode` gives them: `model.map_between` where each frame is encoded once."""
    if isinstance(model, NeuralFourierTransform):
        return model.solve(a, b)
    if isinstance(model, OrthogonalAutoencoder):
        return orthogonal_map(a, b, model.complete)
    return isometric_map(a, b, model.spectrum().eigenvalues, model.mask, model.special, model.damping)


class Predictor(nn.Module, ABC):
    """Relative poses of pairs. Whatever `numbers` gives is an offset from the identity, where all methods start.

    The paper's loss leaves the sign of translations open, see `translation_loss`: `orient` settles it after training.
    """

    orientation: Tensor
    feature_size: int | None = None
    """Numbers that `features` makes of a frame by networks that are frozen; None where there are none."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("orientation", torch.ones(()))

    def features(self, frames: Float[Tensor, "batch 3 size size"]) -> Float[Tensor, "batch ..."]:
        """What is made of a frame by itself."""
        return frames

    @abstractmethod
    def numbers(
        self, first: Float[Tensor, "batch ..."], second: Float[Tensor, "batch ..."]
    ) -> Float[Tensor, "batch 9"]:
        """Offsets of the nine numbers of `niso.geometry.se3.from_parameters`, from features of both frames."""

    def forward(
        self, first: Float[Tensor, "batch ..."], second: Float[Tensor, "batch ..."]
    ) -> Float[Tensor, "batch 4 4"]:
        first, second = (view.to(self.orientation.dtype) for view in (first, second))
        return _pose(self.numbers(first, second), self.orientation)

    @torch.no_grad()
    def orient(self, first: Tensor, second: Tensor, motions: Float[Tensor, "batch 4 4"]) -> None:
        """Choose the sign of translations that these pairs speak for."""
        cosine = torch.cosine_similarity(se3.translation(self(first, second)), se3.translation(motions), dim=-1)
        if cosine.mean() < 0:
            self.orientation.neg_()


@full_precision
def _pose(numbers: Float[Tensor, "batch 9"], orientation: Float[Tensor, ""]) -> Float[Tensor, "batch 4 4"]:
    identity = torch.eye(4, dtype=numbers.dtype, device=numbers.device)
    poses = se3.from_parameters(numbers + se3.to_parameters(identity))
    return se3.pose(se3.rotation(poses), orientation * se3.translation(poses))


class MapPredictor(Predictor):
    """τ of a frozen backbone, vectorised → MLP → relative pose (paper §4.4).

    With `config.standardise` the MLP gets τ less its mean over `examples`, divided by one number: maps of neighbouring
    frames differ little, and each method's by another amount.

    Args:
        examples: latents of frames and of other frames that maps are solved between.
    """

    mean: Tensor
    scale: Tensor

    def __init__(self, config: PoseConfig, model: Backbone, examples: tuple[Tensor, Tensor]) -> None:
        super().__init__()
        self.model = model.requires_grad_(False).eval()
        with torch.no_grad():
            maps = maps_between(model, *examples)
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

    def features(self, frames: Float[Tensor, "batch 3 size size"]) -> Float[Tensor, "batch rank channels"]:
        return encode(self.model, frames)

    def numbers(
        self, first: Float[Tensor, "batch rank channels"], second: Float[Tensor, "batch rank channels"]
    ) -> Float[Tensor, "batch 9"]:
        with torch.no_grad():
            maps = (maps_between(self.model, first, second) - self.mean) / self.scale
        return self.head(maps)


class FeaturePredictor(Predictor):
    """Frozen features of both frames → the decoder of the transformer on both frames → relative pose (paper appendix).

    Args:
        network: neither trained nor saved with the rest; the predictor uses it on the device that it is on.
    """

    def __init__(self, config: PoseConfig, network: PretrainedFeatures) -> None:
        super().__init__()
        self._network = (network,)  # no submodule
        self.feature_size = network.tokens * network.channels
        size = config.transformer
        self.decoder = TwoViewDecoder(
            size.channels, size.decoder_blocks, size.heads, se3.PARAMETERS, inputs=network.channels
        )

    def features(self, frames: Float[Tensor, "batch 3 size size"]) -> Float[Tensor, "batch token channel"]:
        return self._network[0](frames)

    def numbers(
        self, first: Float[Tensor, "batch token channel"], second: Float[Tensor, "batch token channel"]
    ) -> Float[Tensor, "batch 9"]:
        return self.decoder(first, second)


class FramePredictor(Predictor):
    """The transformer on both frames, trained from scratch."""

    def __init__(self, config: PoseConfig) -> None:
        super().__init__()
        self.network = TwoViewTransformer(config.transformer, (config.size, config.size), se3.PARAMETERS)

    def numbers(
        self, first: Float[Tensor, "batch 3 size size"], second: Float[Tensor, "batch 3 size size"]
    ) -> Float[Tensor, "batch 9"]:
        return self.network(first, second)


class ConstantMotion(Predictor):
    """The same motion whatever the frames show, with no rotation: a straight line. Its direction is learned."""

    def __init__(self) -> None:
        super().__init__()
        self.translation = nn.Parameter(torch.tensor([0.0, 0.0, 0.1]))

    def numbers(
        self, first: Float[Tensor, "batch ..."], second: Float[Tensor, "batch ..."]
    ) -> Float[Tensor, "batch 9"]:
        return nn.functional.pad(self.translation, (0, 6)).expand(len(first), -1)


def make_predictor(
    config: PoseConfig,
    method: str,
    backbone: tuple[Backbone, tuple[Tensor, Tensor]] | None,
    features: PretrainedFeatures | None,
) -> Predictor:
    """A method's untrained predictor.

    Args:
        backbone: of a method that pre-trains one: the model, and examples as `MapPredictor` takes them.
        features: see `load_features`.
    """
    if backbone is not None:
        return MapPredictor(config, *backbone)
    if features is not None:
        return FeaturePredictor(config, features)
    return FramePredictor(config) if method == "vit" else ConstantMotion()
