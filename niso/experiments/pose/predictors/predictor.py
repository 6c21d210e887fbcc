"""The protocol of predictors: the relative pose of two cameras from their frames."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Protocol, runtime_checkable

import torch
from jaxtyping import Float
from torch import Tensor, nn

from niso.checks import described
from niso.errors import InputError, foreign
from niso.experiments.pose.presets import PoseConfig
from niso.geometry import se3
from niso.linalg import full_precision
from niso.methods.method import Method
from niso.methods.part import Part
from niso.training.loop import Phase, Sampler
from niso.training.mode import in_mode

TRIED = 3
"""Pairs of frames that a predictor is tried on."""


@runtime_checkable
class Pretraining(Protocol):
    """What predictors are pre-trained on, see `niso.experiments.pose.sampling.PairSampling`."""

    seed: int

    def pretraining(self) -> Sampler:
        """Random pairs of frames."""

    def completion(self) -> Sampler:
        """Random frames, to be covered."""

    def train_pairs(self, count: int) -> Iterator[tuple[Tensor, Tensor]]:
        """Batches of so many random pairs."""


class Predictor(Part, nn.Module, ABC):
    """Predicts the pose of the second camera of a pair in the coordinates of the first.

    A subclass says how it is built, what is trained before its head, if anything, and which settings it reads: the
    experiment asks nothing else of a method. It predicts offsets from the identity by `numbers`. The paper's loss
    leaves the sign of translations open, see `niso.experiments.pose.losses.translation_loss`: `orient` chooses it after
    training.
    """

    orientation: Tensor
    """The sign of translations, a buffer: 1 or −1."""
    feature_size: int | None = None
    """Number of features of a frame, where frozen networks compute them; None where features are not frozen."""
    method: Method | None = None
    """The pre-trained method whose maps it reads; None where it reads none."""
    group: int = 1
    """Consecutive pairs of pre-training that share a motion."""
    precision: Callable[[], AbstractContextManager[Any]] = nullcontext
    """Puts networks in the precision of the run, wherever its method calls them."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("orientation", torch.ones(()))

    @classmethod
    @abstractmethod
    def build(cls, config: PoseConfig) -> Predictor:
        """An untrained predictor.

        Raises:
            InputError: something that it is built from is missing, or settings do not fit each other.
        """

    @classmethod
    def room_share(cls, config: PoseConfig) -> float:
        """Share of the examples of pre-training in which rooms share motions."""
        return 0.0

    def pretraining(self, sampling: Pretraining) -> Iterator[Phase]:
        """The phases before that of the head."""
        yield from ()

    def complete(self, pairs: Iterable[tuple[Tensor, Tensor]]) -> None:
        """Make what depends on what was pre-trained.

        Args:
            pairs: batches of both frames of some training pairs, (batch, 3, size, size) each.
        """

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


def try_predictor(predictor: Predictor, size: int) -> None:
    """Try an untrained predictor on noise, before data is read; the generator of the CPU stays as it is.

    Args:
        size: of frames.

    Raises:
        InputError: `features` or `numbers` fails, or gives something of another form.
    """
    name, device = type(predictor).__name__, predictor.orientation.device
    fails = foreign(f"{name} does not take frames {(TRIED, 3, size, size)}")
    with fails, torch.no_grad(), torch.random.fork_rng([]), in_mode(predictor, False):
        frames = torch.rand(2, TRIED, 3, size, size, device="cpu").to(device)
        numbers = predictor.numbers(*map(predictor.features, frames))
    if not isinstance(numbers, Tensor) or numbers.shape != (TRIED, se3.PARAMETERS):
        expected = f"{se3.PARAMETERS} numbers of each pair, here ({TRIED}, {se3.PARAMETERS})"
        raise InputError(f"{name}.numbers must give {expected}, not {described(numbers)}")


@full_precision
def _pose(numbers: Float[Tensor, "batch 9"], orientation: Float[Tensor, ""]) -> Float[Tensor, "batch 4 4"]:
    identity = torch.eye(4, dtype=numbers.dtype, device=numbers.device)
    poses = se3.from_parameters(numbers + se3.to_parameters(identity))
    return se3.pose(se3.rotation(poses), orientation * se3.translation(poses))
