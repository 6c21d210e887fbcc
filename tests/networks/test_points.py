"""Images as functions on their points, and back."""

import pytest
import torch

from niso.networks.points import grid_to_points, points_to_grid


def test_points_and_grid_are_inverse_views():
    image = torch.randn(2, 3, 4, 5).contiguous(memory_format=torch.channels_last)
    points = grid_to_points(image)
    assert points.shape == (2, 20, 3)
    assert torch.equal(points[:, 7], image[:, :, 1, 2])  # row by row
    assert torch.equal(points_to_grid(points, (4, 5)), image)
    assert points_to_grid(points, (4, 5)).data_ptr() == image.data_ptr()
    with pytest.raises(ValueError, match="20 points do not fill a grid of 4 × 4"):
        points_to_grid(points, (4, 4))
