"""Conventions of cameras, to and from niso's own: camera-to-world poses with OpenCV's axes (see `niso.geometry.se3`).

| convention | stored | camera's axes |
|---|---|---|
| PyTorch3D, CO3Dv2 | R, T with x_camera = x_world R + T (rows) | x left, y up, z forward |
| OpenCV | world-to-camera 4×4 | x right, y down, z forward |
| COLMAP | the same, as quaternion (w, x, y, z) and translation | x right, y down, z forward |
| OpenGL, Blender, nerfstudio | camera-to-world 4×4 | x right, y up, z backward |

All functions `from_…` refuse cameras that are no rigid motions, and return rotations that are so exactly.
Intrinsics are (fx, fy, cx, cy) in pixels, the corner of the image at (0, 0) and the centre of its first pixel at
(½, ½): OpenCV's camera matrix with COLMAP's origin.
"""

from __future__ import annotations

from typing import NamedTuple

import roma
import torch
from jaxtyping import Float
from torch import Tensor

from niso.errors import InputError
from niso.geometry import se3

TOLERANCE = 1e-3
"""Largest entry of RᵀR − I of a given rotation; it is then replaced by the nearest rotation."""


class PyTorch3D(NamedTuple):
    """Extrinsics of PyTorch3D and CO3Dv2: x_camera = x_world @ rotation + translation."""

    rotation: Float[Tensor, "*batch 3 3"]
    translation: Float[Tensor, "*batch 3"]


class Colmap(NamedTuple):
    """Extrinsics of COLMAP: a unit quaternion (w, x, y, z) and a translation, world-to-camera."""

    qvec: Float[Tensor, "*batch 4"]
    tvec: Float[Tensor, "*batch 3"]


def problems(rotations: Float[Tensor, "cameras 3 3"], translations: Float[Tensor, "cameras 3"]) -> dict[int, str]:
    """What is wrong with cameras, by number, as a clause for an error message; those that are rigid motions are absent.

    In that order: not finite, not a rotation (see TOLERANCE), a reflection.
    """
    finite = rotations.isfinite().all(-1).all(-1) & translations.isfinite().all(-1)
    matrices = rotations.where(finite[:, None, None], 0)
    identity = torch.eye(3, dtype=rotations.dtype, device=rotations.device)
    distance = (matrices.mT @ matrices - identity).abs().amax((-2, -1))
    found = dict[int, str]()
    for number in (~finite | (distance > TOLERANCE) | (torch.linalg.det(matrices) < 0)).nonzero()[:, 0].tolist():
        if not finite[number]:
            found[number] = "is not finite"
        elif distance[number] > TOLERANCE:
            found[number] = f"is not a rotation (RᵀR differs from I by {float(distance[number]):.2g})"
        else:
            found[number] = "is a reflection (determinant −1)"
    return found


def checked(
    rotation: Float[Tensor, "*batch 3 3"], translation: Float[Tensor, "*batch 3"]
) -> Float[Tensor, "*batch 4 4"]:
    """Poses with the rotations nearest to those given.

    Raises:
        InputError: a camera is not a rigid motion; it is named by its number.
    """
    rotations, translations = rotation.reshape(-1, 3, 3), translation.reshape(-1, 3)
    for number, found in problems(rotations, translations).items():
        raise InputError(f"camera {number} {found}: repair or remove it")
    nearest = roma.special_procrustes(rotations) if len(rotations) else rotations
    return se3.pose(nearest.reshape(rotation.shape), translation)


def from_opencv(world_to_camera: Float[Tensor, "*batch 4 4"]) -> Float[Tensor, "*batch 4 4"]:
    """Camera-to-world poses of OpenCV's world-to-camera matrices.

    Raises:
        InputError: see `checked`.
    """
    return se3.inverse(checked(se3.rotation(world_to_camera), se3.translation(world_to_camera)))


def to_opencv(poses: Float[Tensor, "*batch 4 4"]) -> Float[Tensor, "*batch 4 4"]:
    """Inverse of `from_opencv`."""
    return se3.inverse(poses)


def from_pytorch3d(
    rotation: Float[Tensor, "*batch 3 3"], translation: Float[Tensor, "*batch 3"]
) -> Float[Tensor, "*batch 4 4"]:
    """Poses of PyTorch3D's R and T: in OpenCV's axes, R' = diag(−1, −1, 1) Rᵀ and t' = diag(−1, −1, 1) T.

    Raises:
        InputError: see `checked`.
    """
    signs = rotation.new_tensor([-1.0, -1.0, 1.0])
    return se3.inverse(checked(signs[:, None] * rotation.mT, signs * translation))


def to_pytorch3d(poses: Float[Tensor, "*batch 4 4"]) -> PyTorch3D:
    """Inverse of `from_pytorch3d`."""
    signs = poses.new_tensor([-1.0, -1.0, 1.0])
    world_to_camera = se3.inverse(poses)
    return PyTorch3D((signs[:, None] * se3.rotation(world_to_camera)).mT, signs * se3.translation(world_to_camera))


def from_opengl(camera_to_world: Float[Tensor, "*batch 4 4"]) -> Float[Tensor, "*batch 4 4"]:
    """Poses of OpenGL's, Blender's and nerfstudio's camera-to-world matrices: the y and z axes are turned.

    Raises:
        InputError: see `checked`.
    """
    turned = se3.rotation(camera_to_world) * camera_to_world.new_tensor([1.0, -1.0, -1.0])
    return checked(turned, se3.translation(camera_to_world))


def to_opengl(poses: Float[Tensor, "*batch 4 4"]) -> Float[Tensor, "*batch 4 4"]:
    """Inverse of `from_opengl`."""
    return se3.pose(se3.rotation(poses) * poses.new_tensor([1.0, -1.0, -1.0]), se3.translation(poses))


def from_colmap(qvec: Float[Tensor, "*batch 4"], tvec: Float[Tensor, "*batch 3"]) -> Float[Tensor, "*batch 4 4"]:
    """Poses of COLMAP's quaternions (w, x, y, z), of any length but 0, and translations.

    Raises:
        InputError: a quaternion is zero, or see `checked`.
    """
    length = qvec.norm(dim=-1, keepdim=True)
    if bool((length == 0).any()):
        raise InputError(
            f"camera {int((length == 0).flatten().nonzero()[0])} has the quaternion 0: repair or remove it"
        )
    unit = roma.quat_wxyz_to_xyzw(qvec / length)
    return se3.inverse(checked(roma.unitquat_to_rotmat(unit), tvec))


def to_colmap(poses: Float[Tensor, "*batch 4 4"]) -> Colmap:
    """Inverse of `from_colmap`; of the two quaternions of a rotation, the one with w ≥ 0."""
    world_to_camera = se3.inverse(poses)
    qvec = roma.quat_xyzw_to_wxyz(roma.rotmat_to_unitquat(se3.rotation(world_to_camera).contiguous()))
    return Colmap(qvec * torch.where(qvec[..., :1] < 0, -1, 1), se3.translation(world_to_camera))


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
    scale = _ndc_scale(size, intrinsics_format)
    return torch.cat((focal_length * scale, size / 2 - principal_point * scale), dim=-1)


def ndc_from_pixels(
    intrinsics: Float[Tensor, "*batch 4"], height: int, width: int, intrinsics_format: str = "ndc_isotropic"
) -> tuple[Float[Tensor, "*batch 2"], Float[Tensor, "*batch 2"]]:
    """Inverse of `pixels_from_ndc`: focal lengths and principal points."""
    size = intrinsics.new_tensor([width, height])
    scale = _ndc_scale(size, intrinsics_format)
    return intrinsics[..., :2] / scale, (size / 2 - intrinsics[..., 2:]) / scale


def _ndc_scale(size: Float[Tensor, " 2"], intrinsics_format: str) -> Float[Tensor, " 2"]:
    """Pixels in a unit of the normalised coordinates, along x and y."""
    if intrinsics_format == "ndc_isotropic":
        return size.min().expand(2) / 2
    if intrinsics_format == "ndc_norm_image_bounds":
        return size / 2
    raise InputError(f"intrinsics format {intrinsics_format!r} is not known: ndc_isotropic or ndc_norm_image_bounds")


def cropped(intrinsics: Float[Tensor, "*batch 4"], height: int, width: int, size: int) -> Float[Tensor, "*batch 4"]:
    """Intrinsics after the largest centred square of an image was cut out and resized to size × size pixels."""
    side = min(height, width)
    shift = intrinsics.new_tensor([0, 0, (width - side) / 2, (height - side) / 2])
    return (intrinsics - shift) * (size / side)
