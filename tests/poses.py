"""Random poses for tests."""

import roma
import torch

from niso.geometry import se3


def random_poses(
    count: int, generator: torch.Generator | None = None, scale: float = 1.0, dtype: torch.dtype = torch.float32
) -> torch.Tensor:
    """Rotations uniform in SO(3), translations N(0, scale²)."""
    numbers = torch.randn(count, 7, generator=generator, dtype=dtype)
    quaternions = torch.nn.functional.normalize(numbers[:, :4], dim=-1)
    return se3.pose(roma.unitquat_to_rotmat(quaternions), scale * numbers[:, 4:])
