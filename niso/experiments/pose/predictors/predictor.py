"""The protocol of predictors: the relative pose of two cameras from their frames."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor, nn

from niso.experiments.pose.presets import PoseConfig
from niso.geometry import se3
from niso.linalg import full_precision


class Predictor(nn.Module, ABC):
    """Predicts the pose of the second camera of a pair in the coordinates of the first.

    A subclass predicts offsets from the identity by `numbers`. The paper's loss leaves the sign of translations open,
    see `niso.experiments.pose.losses.translation_loss`: `orient` chooses it after training.
    """

    orientation: Tensor
    """The sign of translations, a buffer: 1 or −1."""
    feature_size: int | None = None
    """Number of features of a frame, where frozen networks compute them; None where features are not frozen."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("orientation", torch.ones(()))

    def features(self, frames: Float[Tensor, "batch 3 size size"]) -> Float[Tensor, "batch ..."]:
        """Features of single frames, which `numbers` takes; by default the frames themselves."""
        return frames

    @abstractmethod
    def numbers(
        self, first: Float[Tensor, "batch ..."], second: Float[Tensor, "batch ..."]
    ) -> Float[Tensor, "batch 9"]:
        """Offsets of the nine parameters of `niso.geometry.se3.from_parameters`, from the features of both frames."""

    def maps(
        self, first: Float[Tensor, "batch ..."], second: Float[Tensor, "batch ..."]
    ) -> Float[Tensor, "batch rank rank"] | None:
        """Maps τ between the features of both frames, which are coefficients; None where the predictor has none."""
        return None

    def forward(
        self, first: Float[Tensor, "batch ..."], second: Float[Tensor, "batch ..."]
    ) -> Float[Tensor, "batch 4 4"]:
        """Relative poses, from the features of both frames."""
        first, second = (view.to(self.orientation.dtype) for view in (first, second))
        return _pose(self.numbers(first, second), self.orientation)

    @torch.no_grad()
    def orient(self, batches: Iterable[tuple[Tensor, ...]]) -> None:
        """Choose the sign of translations that agrees better with the truth.

        Args:
            batches: features of the first frames of pairs, of the second frames, and true relative poses.
        """
        cosines = [
            torch.cosine_similarity(se3.translation(self(first, second)), se3.translation(motions), dim=-1)
            for first, second, motions in batches
        ]
        if torch.cat(cosines).mean() < 0:
            self.orientation.neg_()


class Baseline(Predictor):
    """A predictor that needs no pre-trained method."""

    reads: ClassVar[frozenset[str]] = frozenset()
    """Settings that it reads, see `niso.methods.method.Method.reads`."""

    @classmethod
    @abstractmethod
    def build(cls, config: PoseConfig) -> Baseline:
        """An untrained predictor.

        Raises:
            InputError: something that it is built from is missing.
        """

    @classmethod
    def available(cls, config: PoseConfig) -> bool:
        """Whether the configuration names everything that it needs."""
        return True


@full_precision
def _pose(numbers: Float[Tensor, "batch 9"], orientation: Float[Tensor, ""]) -> Float[Tensor, "batch 4 4"]:
    identity = torch.eye(4, dtype=numbers.dtype, device=numbers.device)
    poses = se3.from_parameters(numbers + se3.to_parameters(identity))
    return se3.pose(se3.rotation(poses), orientation * se3.translation(poses))
