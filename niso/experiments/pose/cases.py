"""Held-out sequences that a report shows: trajectories from the best to the worst, and failures."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from niso.data.evenly import evenly
from niso.experiments.pose import baselines
from niso.experiments.pose.evaluation import Evaluation
from niso.experiments.pose.frames import Frames
from niso.experiments.pose.trajectories import paths
from niso.geometry import trajectories as trajectory

COUNT = 6
"""Number of sequences, frames and pairs shown, at most."""
WORST = 3
"""Number of sequences shown with their frames, at most."""
SHOWN_SKIPS = (1, 5)
"""Frame skips at which trajectories are shown."""

Strip = Float[np.ndarray, "_frames _height _width 3"]
"""Frames of a sequence, with values in 0 … 1."""


class DrawnPath(NamedTuple):
    """The true path of a camera, and predicted ones after their alignment with the truth.

    Attributes:
        title: the name of the sequence.
        predicted, trivial: the method's path, and that of the training sequences' mean motion; None without one.
        error, trivial_error: √(3n)·ATE of these.
        angle: mean angle between the method's and the true directions of travel, in degrees.
    """

    title: str
    truth: Float[Tensor, "frames 3"]
    predicted: Float[Tensor, "frames 3"]
    error: float
    angle: float
    trivial: Float[Tensor, "frames 3"] | None = None
    trivial_error: float | None = None


class Cases(NamedTuple):
    """Trajectories and failures.

    Attributes:
        paths: paths by skip, from the smallest error to the largest.
        skip: the skip at which the failures happened.
        worst: sequences with the largest errors, and some of their frames.
        pairs: titles and frames of the pairs whose predicted rotation is furthest from the truth, one per sequence.
    """

    paths: dict[int, list[DrawnPath]]
    skip: int
    worst: list[tuple[DrawnPath, Strip]]
    pairs: list[tuple[str, Strip]]


def shown(frames: Frames, results: Evaluation) -> Cases:
    """Choose the trajectories and failures of an evaluation that are shown."""
    ranked = {skip: _by_error(results, skip) for skip in SHOWN_SKIPS if results.errors.get(skip)}
    drawn = {
        skip: [
            _path(frames, results, members[place], skip) for place in evenly(COUNT, len(members), last=True).tolist()
        ]
        for skip, members in ranked.items()
    }
    skip, members = next(iter(ranked.items()), (SHOWN_SKIPS[0], []))
    worst = [(_path(frames, results, number, skip), _strip(frames, number)) for number in members[: -WORST - 1 : -1]]
    pairs = sorted((_worst_pair(frames, results, number, skip) for number in members), reverse=True)
    titled = [
        (
            f"{frames.names[number]}\nturned {turned:.0f}°\noff by {error:.0f}°{constant}",
            _images(frames, number, torch.tensor([place, place + 1]) * (skip + 1)),
        )
        for error, turned, number, place, constant in pairs[:COUNT]
    ]
    return Cases(drawn, skip, worst, titled)


def _by_error(results: Evaluation, skip: int) -> list[int]:
    """Numbers of the sequences evaluated at a skip, in the order of their trajectories' errors, the smallest first."""
    errors = results.errors[skip]
    return sorted(errors, key=lambda number: errors[number].ate_normalised)


def _path(frames: Frames, results: Evaluation, number: int, skip: int) -> DrawnPath:
    poses = frames.posed(number)
    motions, errors = results.motions[skip][number], results.errors[skip][number]
    truth, predicted = paths(motions, poses, skip)
    found = DrawnPath(frames.names[number], truth, predicted, errors.ate_normalised, errors.translation_angle_deg)
    if skip not in results.trivial:
        return found
    _, trivial = paths(results.trivial[skip].expand(len(motions), 4, 4), poses, skip)
    constant = baselines.errors(trajectory.subsample(poses, skip), results.trivial[skip])
    return found._replace(trivial=trivial, trivial_error=constant["fitted_motion_ate_normalised"])


def _worst_pair(frames: Frames, results: Evaluation, number: int, skip: int) -> tuple[float, float, int, int, str]:
    """The pair with the largest error of rotation.

    Returns:
        Error and true angle (degrees), sequence, place of the pair, and a line on the mean motion's error.
    """
    truth = trajectory.relative_poses(trajectory.subsample(frames.posed(number), skip)).double()
    predicted = results.motions[skip][number]
    errors = trajectory.rotation_errors(predicted.double(), truth)
    place = int(errors.argmax())
    turned = trajectory.rotation_errors(truth[place], torch.eye(4, dtype=truth.dtype))
    constant = ""
    if skip in results.trivial:
        constant = f"\n(mean motion {float(trajectory.rotation_errors(results.trivial[skip], truth[place])):.0f}°)"
    return float(errors[place]), float(turned), number, place, constant


def _strip(frames: Frames, number: int) -> Strip:
    """Evenly spaced frames of a sequence, from the first to the last of those evaluated."""
    last = min(trajectory.FRAMES, int(frames.lengths[number])) - 1
    return _images(frames, number, torch.linspace(0, last, COUNT).round().long())


def _images(frames: Frames, number: int, chosen: Tensor) -> Strip:
    images = frames.read(torch.full_like(chosen, number), chosen)
    return (images.permute(0, 2, 3, 1).cpu().numpy() / 255).astype(np.float64)
