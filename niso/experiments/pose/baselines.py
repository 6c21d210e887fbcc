"""Trivial predictions of motions, which look at no frame: what every error is to be compared with."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from jaxtyping import Float, Int
from torch import Tensor

from niso.experiments.pose.frames import Frames
from niso.geometry import se3, so3
from niso.geometry import trajectories as trajectory
from niso.geometry.trajectories import SKIPS

Motions = Mapping[int, Float[Tensor, "4 4"]]
"""One relative pose for all neighbouring frames, by skip."""


def fitted(frames: Frames, members: Int[Tensor, " sequences"]) -> dict[int, Float[Tensor, "4 4"]]:
    """The constant motion of some sequences: mean rotation and mean direction of travel of neighbouring frames.

    Each sequence counts as much as another, whatever its length and its unit of length.

    Args:
        members: numbers of sequences with poses.

    Returns:
        By skip, in float64; the translation has length 1 or less. Skips at which no sequence has two frames are left
        out.
    """
    means = dict[int, Tensor]()
    for skip in SKIPS:
        paths = (frames.posed(number)[:: skip + 1].double() for number in members.tolist())
        motions = map(trajectory.relative_poses, paths)
        known = [part for part in motions if len(part)]
        if known:
            rotation = torch.stack([se3.rotation(part).mean(0) for part in known]).mean(0)
            directions = [torch.nn.functional.normalize(se3.translation(part), dim=-1).mean(0) for part in known]
            means[skip] = se3.pose(so3.special_procrustes(rotation), torch.stack(directions).mean(0))
    return means


def errors(poses: Float[Tensor, "frames 4 4"], motion: Float[Tensor, "4 4"] | None) -> dict[str, float]:
    """Errors of trivial predictions for neighbouring frames, by the keys of `niso.experiments.pose.evaluation.METRICS`.

    Args:
        motion: the constant motion of the training sequences; None where there is none.
    """
    truth = trajectory.relative_poses(poses.double())
    ahead = torch.eye(4, dtype=truth.dtype)
    ahead[2, 3] = 1
    ahead = ahead.expand_as(truth)
    values = {
        "identity_rotation_error_deg": float(trajectory.rotation_errors(ahead, truth).mean()),
        "straight_ahead_translation_angle_deg": float(trajectory.translation_angles(ahead, truth).nanmean()),
    }
    if motion is not None:
        found = trajectory.errors(motion.expand_as(truth), poses)
        for key in ("ate_normalised", "rotation_error_deg", "translation_angle_deg"):
            values[f"fitted_motion_{key}"] = getattr(found, key)
    return values
