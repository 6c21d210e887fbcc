"""Trajectories of held-out sequences, and their errors at every frame skip."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from niso import metrics
from niso.experiments.pose.frames import Frames
from niso.experiments.pose.predictors import MapPredictor, Predictor, maps_between
from niso.geometry import trajectories as trajectory
from niso.geometry.trajectories import FRAMES, SKIPS, TrajectoryErrors

BATCH = 64
"""Frames encoded, and pairs predicted, at once."""

_DESCRIPTIONS = {
    "ate": "absolute trajectory error as the paper has it (shrinks with the number of frames, at most 1/√(3n)), mean "
    "over held-out sequences",
    "ate_normalised": "√(3n) times the former: 0 is exact, 1 a camera that is said to stand still",
    "ate_sim3": "root mean square distance of places after a similarity, in the data's unit of length",
    "rotation_error_deg": "angle between predicted and true relative rotations (degrees)",
    "translation_angle_deg": "angle between predicted and true relative translations (degrees)",
    "constant_motion_ate": "the paper's error of a straight line at constant speed on the same sequences",
    "constant_motion_ate_normalised": "√(3n) times the former",
    "constant_motion_ate_sim3": "root mean square distance of such a line's places after a similarity",
    "equivariance_error": "‖τa − b‖² / ‖b‖² of neighbouring frames of held-out sequences (mean over pairs)",
    "sequences": "held-out sequences evaluated",
}


def metric_descriptions() -> dict[str, str]:
    """What the figures of `evaluate` are, by their keys."""
    return {
        f"{key}_skip{skip}": f"{text}; {skip or 'no'} frame{'s' * (skip != 1)} left out between neighbours"
        for skip in SKIPS
        for key, text in _DESCRIPTIONS.items()
    }


class Evaluable(NamedTuple):
    """Which held-out sequences can be evaluated.

    Attributes:
        members: numbers of sequences, by skip.
        reasons: why others cannot, by "name, skip s".
    """

    members: dict[int, list[int]]
    reasons: dict[str, str]


def evaluable(frames: Frames, held_out: Sequence[int]) -> Evaluable:
    """Sequences with poses, of three frames at least at a skip, whose camera moves."""
    members: dict[int, list[int]] = {skip: [] for skip in SKIPS}
    reasons = dict[str, str]()
    for number in held_out:
        poses = frames.poses[number]
        if poses is None:
            reasons[frames.names[number]] = "it has no camera poses"
            continue
        for skip in SKIPS:
            path = trajectory.subsample(poses, skip)[:, :3, 3]
            name = f"{frames.names[number]}, skip {skip}"
            if len(path) < 3:
                reasons[name] = f"it has {len(path)} frames there, 3 are needed"
                continue
            try:
                trajectory.ate(trajectory.straight_line(len(path)), path)
            except ValueError as error:
                reasons[name] = str(error)
                continue
            members[skip].append(number)
    return Evaluable(members, reasons)


@torch.no_grad()
def features(predictor: Predictor, frames: Frames, sequence: int) -> Tensor:
    """What a predictor makes of a sequence's frames, the first 200."""
    count = min(FRAMES, int(frames.lengths[sequence]))
    parts = torch.arange(count).split(BATCH)
    return torch.cat([predictor.features(frames(torch.full_like(part, sequence), part)) for part in parts])


@torch.no_grad()
def motions(predictor: Predictor, seen: Tensor, skip: int) -> Float[Tensor, "pairs 4 4"]:
    """Predicted relative poses of neighbours, `skip` frames left out between them, on the CPU."""
    kept = seen[:: skip + 1]
    pairs = zip(kept[:-1].split(BATCH), kept[1:].split(BATCH), strict=True)
    return torch.cat([predictor(first, second).cpu() for first, second in pairs])


@torch.no_grad()
def equivariance_errors(predictor: Predictor, seen: Tensor, skip: int) -> Float[Tensor, " pairs"] | None:
    """Errors of the maps between neighbours, on the CPU; None where the method has no maps."""
    if not isinstance(predictor, MapPredictor):
        return None
    kept, model = seen[:: skip + 1], predictor.model
    pairs = zip(kept[:-1].split(BATCH), kept[1:].split(BATCH), strict=True)
    return torch.cat([metrics.equivariance_error(maps_between(model, a, b), a, b).cpu() for a, b in pairs])


class Evaluation(NamedTuple):
    """What is found on held-out sequences.

    Attributes:
        figures: means at every skip that has a sequence, see `metric_descriptions`.
        motions: predicted relative poses of neighbours, by skip and number of the sequence; on the CPU.
        errors: of the trajectories that they compose to, likewise.
    """

    figures: dict[str, float]
    motions: dict[int, dict[int, Float[Tensor, "pairs 4 4"]]]
    errors: dict[int, dict[int, TrajectoryErrors]]


def evaluate(predictor: Predictor, frames: Frames, members: Mapping[int, Sequence[int]]) -> Evaluation:
    """Predictions for all members (numbers of sequences by skip), and their errors."""
    predictor.eval()
    found = Evaluation({}, {skip: {} for skip in SKIPS}, {skip: {} for skip in SKIPS})
    latents: dict[int, list[Tensor]] = {skip: [] for skip in SKIPS}
    for number in sorted({number for numbers in members.values() for number in numbers}):
        seen, poses = features(predictor, frames, number), frames.poses[number]
        assert poses is not None
        for skip in (skip for skip in SKIPS if number in members[skip]):
            predicted = motions(predictor, seen, skip)
            found.motions[skip][number] = predicted
            found.errors[skip][number] = trajectory.errors(predicted, trajectory.subsample(poses, skip))
            if (error := equivariance_errors(predictor, seen, skip)) is not None:
                latents[skip].append(error)
    for skip, errors in found.errors.items():
        if not errors:
            continue
        values = torch.tensor(list(errors.values()), dtype=torch.float64).nanmean(0)
        means = dict(zip(TrajectoryErrors._fields, values.tolist(), strict=True))
        if latents[skip]:
            means["equivariance_error"] = torch.cat(latents[skip]).double().mean().item()
        means["sequences"] = float(len(errors))
        found.figures.update({f"{key}_skip{skip}": value for key, value in means.items()})
    return found


def by_skip(figures: Mapping[str, float], key: str) -> dict[int, float]:
    """One figure at every skip where there is one."""
    return {skip: figures[f"{key}_skip{skip}"] for skip in SKIPS if f"{key}_skip{skip}" in figures}
