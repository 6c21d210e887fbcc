"""Rigid motions of space: poses as 4×4 matrices [[R, t], [0, 1]], composed by `@`.

All poses of cameras in niso are camera-to-world with the axes of OpenCV (x right, y down, z forward): the columns of R
are the axes of the camera, and t is its position. For other conventions see `niso.geometry.cameras`.
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from niso.geometry import so3
from niso.linalg import matmul

PARAMETERS = 9
"""Number of outputs of a pose head: a translation, and two vectors that become a rotation."""

_TINY = 1e-12  # length below which a vector counts as having no direction


def pose(rotation: Float[Tensor, "*batch 3 3"], translation: Float[Tensor, "*batch 3"]) -> Float[Tensor, "*batch 4 4"]:
    """Pose of a rotation and a translation, without any check."""
    upper = torch.cat((rotation, translation[..., None]), dim=-1)
    last = torch.eye(4, dtype=upper.dtype, device=upper.device)[3:].expand_as(upper[..., :1, :])
    return torch.cat((upper, last), dim=-2)


def rotation(poses: Float[Tensor, "*batch 4 4"]) -> Float[Tensor, "*batch 3 3"]:
    """R, as a view."""
    return poses[..., :3, :3]


def translation(poses: Float[Tensor, "*batch 4 4"]) -> Float[Tensor, "*batch 3"]:
    """t, as a view."""
    return poses[..., :3, 3]


def inverse(poses: Float[Tensor, "*batch 4 4"]) -> Float[Tensor, "*batch 4 4"]:
    """(R, t)⁻¹ = (Rᵀ, −Rᵀt); no solver."""
    transposed = rotation(poses).mT
    return pose(transposed, -matmul(transposed, translation(poses)[..., None])[..., 0])


def relative(first: Float[Tensor, "*batch 4 4"], second: Float[Tensor, "*batch 4 4"]) -> Float[Tensor, "*batch 4 4"]:
    """first⁻¹ second, the second camera as the first one sees it, so that first @ relative = second.

    It does not depend on the coordinates of the world.
    """
    return matmul(inverse(first), second)


def hat(vectors: Float[Tensor, "*batch 3"]) -> Float[Tensor, "*batch 3 3"]:
    """Matrix of the cross product: hat(a) @ b = a × b."""
    x, y, z = vectors.unbind(-1)
    zero = torch.zeros_like(x)
    return torch.stack((zero, -z, y, z, zero, -x, -y, x, zero), dim=-1).unflatten(-1, (3, 3))


def exp(twists: Float[Tensor, "*batch 6"]) -> Float[Tensor, "*batch 4 4"]:
    """Exponential map of twists (ρ, ω), in units of length and in radians.

    R = exp(hat(ω)) and t = Vρ with V = ∫₀¹ exp(s hat(ω)) ds. Differentiable everywhere, at ω = 0, too.
    """
    rho, omega = twists[..., :3], twists[..., 3:]
    return pose(so3.rotvec_to_rotmat(omega), (_averaged(omega) @ rho[..., None])[..., 0])


def _averaged(omega: Float[Tensor, "*batch 3"]) -> Float[Tensor, "*batch 3 3"]:
    """V = I + (1 − cos θ)/θ² hat(ω) + (θ − sin θ)/θ³ hat(ω)², both fractions by their series where θ is small."""
    square = omega.square().sum(-1)[..., None, None]
    small = square < 1e-2
    theta = square.where(~small, 1).sqrt()
    linear = (1 - theta.cos()) / theta.square()
    linear = linear.where(~small, 1 / 2 - square / 24 * (1 - square / 30 * (1 - square / 56 * (1 - square / 90))))
    quadratic = (theta - theta.sin()) / theta**3
    series = 1 / 6 - square / 120 * (1 - square / 42 * (1 - square / 72 * (1 - square / 110)))
    quadratic = quadratic.where(~small, series)
    matrix = hat(omega)
    identity = torch.eye(3, dtype=omega.dtype, device=omega.device)
    return identity + linear * matrix + quadratic * (matrix @ matrix)


def from_parameters(parameters: Float[Tensor, "*batch 9"]) -> Float[Tensor, "*batch 4 4"]:
    """Pose of the nine outputs of a head: a translation t and two vectors a, b (paper, appendix on pose estimation).

    The columns of the rotation are x = a/|a|, z × x, and z = (a × b)/|a × b|. The result is a rotation for any nine
    numbers whose norms are finite: the x axis replaces a vector a of length 0, and one of the axes replaces b where
    a × b vanishes. The gradient with respect to a replaced vector is zero.
    """
    place, a, b = parameters.unflatten(-1, (3, 3)).unbind(-2)
    axes = torch.eye(3, dtype=parameters.dtype, device=parameters.device)
    a = a.where(a.norm(dim=-1, keepdim=True) > _TINY, axes[0])
    x = a / a.norm(dim=-1, keepdim=True)
    normal = x.cross(b, dim=-1)
    limit = _TINY + 10 * torch.finfo(b.dtype).eps * b.norm(dim=-1, keepdim=True)
    instead = x.cross(axes[x.abs().argmin(-1)], dim=-1)
    normal = normal.where(normal.norm(dim=-1, keepdim=True) > limit, instead)
    for _ in range(2):  # where a and b are nearly parallel, rounding leaves a × b far from orthogonal to a
        normal = normal / normal.norm(dim=-1, keepdim=True)
        normal = normal - (normal * x).sum(-1, keepdim=True) * x
    z = normal / normal.norm(dim=-1, keepdim=True)
    return pose(torch.stack((x, z.cross(x, dim=-1), z), dim=-1), place)


def to_parameters(poses: Float[Tensor, "*batch 4 4"]) -> Float[Tensor, "*batch 9"]:
    """Translation and first two columns of the rotation; `from_parameters` recovers the pose from them."""
    return torch.cat((translation(poses), poses[..., :3, 0], poses[..., :3, 1]), dim=-1)
