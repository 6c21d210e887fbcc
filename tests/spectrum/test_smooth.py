"""The smoothest functions on points."""

import pytest
import torch

from niso.geometry.domains.domain import quadrature_sphere
from niso.spectrum import smooth, smooth_functions


def test_on_the_sphere_they_are_harmonics():
    """The first is constant, and the next three span the coordinates, whatever the density of the points."""
    points = quadrature_sphere(16, 16).points
    first, *next_ones = smooth_functions(points, 4).mT
    assert first.std() < 1e-6 * first.mean().abs()
    span = torch.linalg.qr(torch.stack(next_ones, 1)).Q
    assert (torch.linalg.vector_norm(span.mT @ points, dim=0) > 0.99 * torch.linalg.vector_norm(points, dim=0)).all()


def test_where_the_origin_is_makes_no_difference():
    points = torch.arange(64.0, dtype=torch.float64)[:, None]
    functions = smooth_functions(points, 6)
    torch.testing.assert_close(smooth_functions(1.7e9 + points, 6).abs(), functions.abs())


@pytest.mark.parametrize("points", [torch.zeros(1, 2), torch.zeros(4, 3), torch.arange(7.0)[:, None]])
def test_any_points_have_as_many_as_there_are_points(points):
    functions = smooth_functions(points, len(points))
    assert torch.linalg.matrix_rank(functions) == len(points)


def test_too_many_points_are_refused(monkeypatch):
    monkeypatch.setattr(smooth, "MOST", 5)
    with pytest.raises(ValueError, match="at most 5 points, not 6"):
        smooth_functions(torch.zeros(6, 2), 2)


def test_wrong_arguments():
    points = torch.rand(5, 2)
    for rank in (0, 6):
        with pytest.raises(ValueError, match="rank"):
            smooth_functions(points, rank)
    with pytest.raises(ValueError, match="points must be finite"):
        smooth_functions(points / 0, 2)
