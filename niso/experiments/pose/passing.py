"""Objects that pass in front of the cameras of sequences, and errors of trajectories against the share they cover.

They are put over frames when these are read: frames, stored or rendered, stay as they are, and so do the targets of
reconstructions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import torch
from jaxtyping import Float, Int
from torch import Tensor

from niso.experiments import partial_views
from niso.experiments.pose import evaluation
from niso.experiments.pose.evaluation import Evaluable
from niso.experiments.pose.frames import Frames
from niso.experiments.pose.predictors.predictor import Predictor
from niso.geometry.occluders import Occluder, PassingObjects, draw_passing
from niso.random import step_generator
from niso.results import Curve

SKIP = 1
"""Frame skip at which errors under occlusion are measured."""
MEASURED = {
    "ate_normalised": "√(3n)·ATE",
    "ate_sim3": "ATE after a similarity",
    "rotation_error_deg": "rotation error (°)",
    "translation_angle_deg": "translation angle (°)",
}
"""Labels of the metrics that are also measured under occlusion."""

_WHOLE = {metric.key: metric for metric in evaluation.METRICS}  # with nothing in front
METRICS = tuple(
    replace(
        _WHOLE[f"{key}_skip{SKIP}"],
        key=f"{key}_covered{suffix}",
        text=f"{_WHOLE[f'{key}_skip{SKIP}'].text}, and an object passing in front of the camera that covers 10, 20, "
        f"30 and 40 % of each frame (mean of the four){where}",
    )
    for suffix, where in (("", ""), ("_val", ", on validation sequences"))
    for key in MEASURED
)
"""Metrics under occlusion."""


@dataclass(frozen=True)
class Passing:
    """Frames behind objects that pass in front of the cameras, one object for each sequence.

    Attributes:
        frames: the frames without them.
        objects: an object for each sequence.
        share: of each frame of a sequence that its object covers.
        mark: hidden pixels are NaN, instead of the object's colours.
    """

    frames: Frames
    objects: PassingObjects
    share: Float[Tensor, " sequences"]
    mark: bool

    def __call__(
        self, sequence: Int[Tensor, " batch"], frame: Int[Tensor, " batch"]
    ) -> Float[Tensor, "batch 3 size size"]:
        """Frames as the input of networks, see `Frames`."""
        return self.over(self.frames(sequence, frame), sequence, frame)

    def over(
        self, images: Float[Tensor, "batch 3 size size"], sequence: Int[Tensor, " batch"], frame: Int[Tensor, " batch"]
    ) -> Float[Tensor, "batch 3 size size"]:
        """The same for frames that are read already."""
        return self.occluder(images.device, sequence, frame).over(images, self.mark)

    def occluder(self, device: torch.device, sequence: Int[Tensor, " batch"], frame: Int[Tensor, " batch"]) -> Occluder:
        """What is in front of these frames."""
        share = self.share[sequence].to(device, non_blocking=True)
        time = frame.to(device, torch.float32, non_blocking=True)
        return self.objects.of(sequence, device).at(time, share, (self.frames.size, self.frames.size))


def drawn(frames: Frames, seed: int) -> tuple[PassingObjects, Float[Tensor, " sequences"]]:
    """An object for each sequence, and a uniform number in [0, 1); both depend on the sequence's name and the seed."""
    objects, numbers = list[PassingObjects](), list[Tensor]()
    for name in frames.names:
        generator = step_generator(seed, 0, f"passing {name}")
        objects.append(draw_passing(1, 3, generator))
        numbers.append(torch.rand(1, generator=generator))
    return PassingObjects(*map(torch.cat, zip(*objects, strict=True))), torch.cat(numbers)


def passing(frames: Frames, seed: int, most: float, mark: bool) -> Passing:
    """Objects to train with: in each sequence another covers a share of all frames, uniform in [0, `most`]."""
    objects, numbers = drawn(frames, seed)
    return Passing(frames, objects, most * numbers, mark)


def covering(frames: Frames, seed: int, shares: Sequence[float], mark: bool) -> list[Passing]:
    """Objects to test with: for each of these shares the same objects, covering it on every frame."""
    objects, numbers = drawn(frames, seed)
    return [Passing(frames, objects, torch.full_like(numbers, share), mark) for share in shares]


def by_covered_share(
    predictor: Predictor,
    whole: Mapping[str, float],
    covered: Sequence[Passing],
    held_out: Evaluable,
) -> dict[str, Curve]:
    """Errors against the covered share, by the keys of `MEASURED`; nothing where no sequence can be evaluated.

    Args:
        whole: metrics of the same sequences with nothing in front, the first share of `partial_views.SHARES`.
        covered: `covering` for the other shares.
        held_out: the sequences to predict.
    """
    members = held_out.members.get(SKIP)
    if not members:
        return {}
    only = Evaluable({skip: members if skip == SKIP else [] for skip in held_out.members}, {})
    errors = [
        whole,
        *(evaluation.evaluate(predictor, objects.frames, only, see=objects).metrics for objects in covered),
    ]
    return {
        key: partial_views.curve([values[f"{key}_skip{SKIP}"] for values in errors], len(members), label)
        for key, label in MEASURED.items()
    }


def covered_metrics(curves: dict[str, Curve], suffix: str) -> dict[str, float]:
    """Means over the covered shares above 0, by the keys of `METRICS`."""
    return {f"{key}_covered{suffix}": partial_views.mean_covered(curve) for key, curve in curves.items()}
