"""Trajectories of cameras: composition of relative poses, and errors of predicted trajectories.

A trajectory is the (n, 4, 4) camera-to-world poses of consecutive frames (see `niso.geometry.se3`), and a path its
(n, 3) positions. A prediction composed from relative poses has an unknown scale and an arbitrary first camera.
Therefore all errors of paths are computed after alignment, in float64.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from niso.geometry import se3, so3
from niso.linalg import matmul

SKIPS = (0, 1, 3, 5, 7, 9)
"""Numbers of frames skipped between neighbours, in the table of the paper."""
FRAMES = 200
"""Only so many first frames of a sequence are evaluated, skipped frames included."""


class TrajectoryErrors(NamedTuple):
    """Errors of one predicted trajectory, and of a straight line at constant speed for comparison.

    See the functions of these names, for `ate` `ate_normalised`; rotation errors and translation angles are means over
    neighbouring frames, the latter over those whose true translation is not 0.
    """

    ate: float
    ate_normalised: float
    ate_sim3: float
    rotation_error_deg: float
    translation_angle_deg: float
    constant_motion_ate: float
    constant_motion_ate_normalised: float
    constant_motion_ate_sim3: float


def subsample(poses: Float[Tensor, "frames 4 4"], skip: int) -> Float[Tensor, "kept 4 4"]:
    """Every (skip + 1)-th of the first `FRAMES` poses."""
    return poses[: FRAMES : skip + 1]


def relative_poses(poses: Float[Tensor, "*batch frames 4 4"]) -> Float[Tensor, "*batch pairs 4 4"]:
    """Pose of each frame as seen from its predecessor, inverse(poses[l]) @ poses[l + 1]."""
    return se3.relative(poses[..., :-1, :, :], poses[..., 1:, :, :])


def compose(motions: Float[Tensor, "*batch pairs 4 4"]) -> Float[Tensor, "*batch frames 4 4"]:
    """Trajectory with these relative poses from the identity on; inverse of `relative_poses`."""
    poses = [torch.eye(4, dtype=motions.dtype, device=motions.device).expand(*motions.shape[:-3], 4, 4)]
    for motion in motions.unbind(-3):
        poses.append(matmul(poses[-1], motion))
    return torch.stack(poses, dim=-3)


def straight_line(frames: int) -> Float[Tensor, "frames 3"]:
    """The constant-motion path: equal steps straight ahead, the prediction of a model that has learned nothing."""
    return torch.arange(frames, device="cpu")[:, None] * torch.tensor(
        [0.0, 0.0, 1.0], dtype=torch.float64, device="cpu"
    )


def aligned(
    predicted: Float[Tensor, "*batch frames 3"], truth: Float[Tensor, "*batch frames 3"], reflections: bool = False
) -> Float[Tensor, "*batch frames 3"]:
    """Predicted path under the similarity that brings it nearest to the true path, see `similarity`."""
    scale, rotation, shift = similarity(predicted, truth, reflections)
    return scale[..., None, None] * (predicted.double() @ rotation.mT) + shift[..., None, :]


def similarity(
    predicted: Float[Tensor, "*batch frames 3"], truth: Float[Tensor, "*batch frames 3"], reflections: bool = False
) -> tuple[Float[Tensor, "*batch"], Float[Tensor, "*batch 3 3"], Float[Tensor, "*batch 3"]]:
    """Scale, rotation and shift that bring a predicted path nearest to the true one (Umeyama 1991), in float64.

    A predicted camera that stands still is moved to the centre of the truth, by a scale of 0.

    Args:
        reflections: whether the rotation may include a reflection.
    """
    predicted, truth = predicted.double(), truth.double()
    centre, start = truth.mean(-2, keepdim=True), predicted.mean(-2, keepdim=True)
    x, y = predicted - start, truth - centre
    u, sigma, vh = torch.linalg.svd(x.mT @ y)
    if not reflections:
        sign = torch.linalg.det(u @ vh).sign()
        flip = torch.stack((torch.ones_like(sign), torch.ones_like(sign), sign), dim=-1)
        u, sigma = u * flip[..., None, :], sigma * flip
    size = x.square().sum((-2, -1))
    moving = size > 1e-24 * predicted.square().sum((-2, -1))
    scale = (sigma.sum(-1) / size.where(moving, 1)).where(moving, 0)
    rotation = (u @ vh).mT
    return scale, rotation, (centre - scale[..., None, None] * (start @ rotation.mT))[..., 0, :]


def ate_normalised(
    predicted: Float[Tensor, "*batch frames 3"], truth: Float[Tensor, "*batch frames 3"]
) -> Float[Tensor, "*batch"]:
    """√(3n) times the absolute trajectory error (ATE) as computed for the table of the paper; without a unit.

    Both paths are centred and scaled to unit Frobenius norm. Then the prediction is aligned by an orthogonal map, which
    may be a reflection, and a scale. The ATE is the root mean square of the 3n coordinates of the difference. It
    shrinks with the number n of frames and is at most 1/√(3n). This is between 0 and 1 for any n, and 1 for a predicted
    camera that stands still.

    Raises:
        ValueError: the true camera does not move, or a position is not finite.
    """
    truth = truth.double()
    size = (truth - truth.mean(-2, keepdim=True)).norm(dim=(-2, -1))
    _check_finite(predicted, truth)
    if not bool((size > 1e-12 * truth.norm(dim=(-2, -1))).all()):
        raise ValueError("the true camera does not move: such a trajectory has no relative error")
    return (aligned(predicted, truth, reflections=True) - truth).norm(dim=(-2, -1)) / size


def ate_sim3(
    predicted: Float[Tensor, "*batch frames 3"], truth: Float[Tensor, "*batch frames 3"]
) -> Float[Tensor, "*batch"]:
    """Root mean square distance of positions after the best similarity without reflection, in the unit of the truth.

    This is the usual ATE, as in the tool evo with alignment and correction of scale.

    Raises:
        ValueError: a position is not finite.
    """
    _check_finite(predicted, truth)
    return (aligned(predicted, truth) - truth.double()).square().sum(-1).mean(-1).sqrt()


def _check_finite(predicted: Tensor, truth: Tensor) -> None:
    if not bool(predicted.isfinite().all() and truth.isfinite().all()):
        raise ValueError("a trajectory has positions that are not finite")


def rotation_errors(
    predicted: Float[Tensor, "*batch 4 4"], truth: Float[Tensor, "*batch 4 4"]
) -> Float[Tensor, "*batch"]:
    """Angle of the rotation from one rotation to the other, in degrees, 0 to 180."""
    return so3.rotmat_geodesic_distance(se3.rotation(predicted).double(), se3.rotation(truth).double()).rad2deg()


def translation_angles(
    predicted: Float[Tensor, "*batch 4 4"], truth: Float[Tensor, "*batch 4 4"]
) -> Float[Tensor, "*batch"]:
    """Angle between the directions of two translations, in degrees, 0 to 180; their lengths make no difference.

    It is 90 where the prediction is 0 and has no direction, and NaN where the truth is 0.
    """
    a, b = se3.translation(predicted).double(), se3.translation(truth).double()
    angle = torch.atan2(a.cross(b, dim=-1).norm(dim=-1), (a * b).sum(-1)).rad2deg()
    angle = angle.where((a != 0).any(-1), 90.0)
    return angle.where((b != 0).any(-1), torch.nan)


def errors(predicted_motions: Float[Tensor, "pairs 4 4"], true_poses: Float[Tensor, "frames 4 4"]) -> TrajectoryErrors:
    """All errors of relative poses predicted for neighbouring frames.

    Args:
        true_poses: poses of these frames, one more than there are motions; see `subsample`.

    Raises:
        ValueError: see `ate_normalised`; or the numbers of poses and motions do not fit.
    """
    if len(true_poses) != len(predicted_motions) + 1:
        raise ValueError(f"{len(true_poses)} poses have {len(true_poses) - 1} motions, not {len(predicted_motions)}")
    motions, poses = predicted_motions.double(), true_poses.double()
    true_motions = relative_poses(poses)
    predicted, truth = se3.translation(compose(motions)), se3.translation(poses)
    line = straight_line(len(poses)).to(truth.device)
    paths = torch.stack((predicted, line)), truth.expand(2, -1, -1)
    normalised = ate_normalised(*paths)
    scores = torch.stack((normalised / math.sqrt(3 * len(poses)), normalised, ate_sim3(*paths)), dim=1)
    angles = translation_angles(motions, true_motions)
    means = torch.stack((rotation_errors(motions, true_motions).mean(), angles.nanmean()))
    return TrajectoryErrors(*torch.cat((scores[0], means, scores[1])).tolist())
