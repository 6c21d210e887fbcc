"""Cameras as data sets store them, turned into niso's: camera-to-world poses with OpenCV's axes (see `se3`).

Intrinsics are (fx, fy, cx, cy) in pixels, the corner of the image at (0, 0) and the centre of its first pixel at
(½, ½): OpenCV's camera matrix with COLMAP's origin.
"""

from __future__ import annotations

import numpy as np
import roma
import torch
from jaxtyping import Float
from torch import Tensor

from niso.errors import InputError
from niso.geometry import se3

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
    finite = rotations.isfinite().all(-1).all(-1) & translations.isfinite().all(-1)
    matrices = rotations.where(finite[:, None, None], 0)
    distance = (matrices.mT @ matrices - torch.eye(3, dtype=rotations.dtype)).abs().amax((-2, -1))
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
    poses = torch.full((len(rotations), 4, 4), torch.nan, dtype=torch.float64)
    if good.any():
        poses[good] = se3.inverse(se3.pose(roma.special_procrustes(rotations[good]), translations[good])).double()
    return poses.numpy(), problems


def pixels_from_ndc(
    focal_length: Float[Tensor, "*batch 2"],
    principal_point: Float[Tensor, "*batch 2"],
    height: int,
    width: int,
    intrinsics_format: str = "ndc_isotropic",
) -> Float[Tensor, "*batch 4"]:
    """Intrinsics in pixels of PyTorch3D's normalised device coordinates, x to the left and y upwards.

    Args:
        intrinsics_format: "ndc_isotropic", where the shorter side is 2, or "ndc_norm_image_bounds", where both are.

    Raises:
        InputError: another format.
    """
    size = focal_length.new_tensor([width, height])
    if intrinsics_format not in ("ndc_isotropic", "ndc_norm_image_bounds"):
        choices = "ndc_isotropic or ndc_norm_image_bounds"
        raise InputError(f"intrinsics format {intrinsics_format!r} is not known: {choices}")
    scale = (size.min() if intrinsics_format == "ndc_isotropic" else size) / 2  # pixels in a unit
    return torch.cat((focal_length * scale, size / 2 - principal_point * scale), dim=-1)


def cropped(intrinsics: Float[Tensor, "*batch 4"], height: int, width: int, size: int) -> Float[Tensor, "*batch 4"]:
    """Intrinsics after the largest centred square of an image was cut out and resized to size × size pixels."""
    side = min(height, width)
    shift = intrinsics.new_tensor([0, 0, (width - side) / 2, (height - side) / 2])
    return (intrinsics - shift) * (size / side)
