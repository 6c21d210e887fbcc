"""Cameras as data sets store them, turned into niso's: camera-to-world poses with OpenCV's axes (see `se3`)."""

from __future__ import annotations

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from niso.geometry import se3, so3

TOLERANCE = 1e-3
"""Largest entry of RᵀR − I of a given rotation; it is then replaced by the nearest rotation."""


def from_world_to_camera(
    rotations: Float[Tensor, "frames 3 3"], translations: Float[Tensor, "frames 3"]
) -> tuple[Float[np.ndarray, "frames 4 4"], dict[int, str]]:
    """Camera-to-world poses of x_camera = R x_world + t, in float64, with exact rotations.

    Returns:
        Poses, NaN for cameras that are not rigid motions; and what is wrong with each of these, by number, as a clause
        for an error message.
    """
    rotations, translations = rotations.double(), translations.double()
    finite = rotations.isfinite().all(-1).all(-1) & translations.isfinite().all(-1)
    matrices = rotations.where(finite[:, None, None], 0)
    distance = (
        (matrices.mT @ matrices - torch.eye(3, dtype=rotations.dtype, device=rotations.device)).abs().amax((-2, -1))
    )
    reflected = torch.linalg.det(matrices) < 0
    good = finite & (distance <= TOLERANCE) & ~reflected
    problems = dict[int, str]()
    for number in (~good).nonzero()[:, 0].tolist():
        if not finite[number]:
            problems[number] = "its camera is not finite"
        elif distance[number] > TOLERANCE:
            problems[number] = f"its camera is not a rotation (RᵀR differs from I by {float(distance[number]):.2g})"
        else:
            problems[number] = "its camera is a reflection (determinant −1)"
    poses = torch.full((len(rotations), 4, 4), torch.nan, dtype=torch.float64, device=rotations.device)
    if good.any():
        poses[good] = se3.inverse(se3.pose(so3.special_procrustes(rotations[good]), translations[good]))
    return poses.numpy(), problems
