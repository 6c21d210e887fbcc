"""Points of grids lie where they should, and their weights are areas."""

import math

import pytest
import torch

from niso.geometry.domains import equirectangular, sphere
from niso.geometry.domains.domain import box, quadrature_sphere, rastered_sphere, torus
from niso.geometry.shifts import Shifts

RASTER = rastered_sphere((24, 48), "driscoll-healy")


@pytest.mark.parametrize("domain", [box, torus, quadrature_sphere, RASTER, rastered_sphere((24, 48), "poles")])
def test_weights_have_mean_one(domain):
    points, weights = domain(12, 12)
    assert points.shape[0] == len(weights) == 144 and len(points.unique(dim=0)) == 144
    assert (weights > 0).all() and weights.mean().item() == pytest.approx(1)
    assert points.abs().max() <= 1 + 1e-12


def test_the_longest_side_of_a_box_reaches_from_one_end_to_the_other():
    x, y, z = box(2, 3, 4).points.unflatten(0, (2, 3, 4)).unbind(-1)  # width, height and depth
    assert x[0, 0].tolist() == [-0.75, -0.25, 0.25, 0.75]
    assert (y[0, :, 0].tolist(), z[:, 0, 0].tolist()) == ([-0.5, 0.0, 0.5], [-0.25, 0.25])
    x, y = box(2, 4).points.unflatten(0, (2, 4)).unbind(-1)
    assert x[0].tolist() == [-0.75, -0.25, 0.25, 0.75] and y[:, 0].tolist() == [-0.25, 0.25]


def test_shifts_move_points_along_the_axes_of_the_torus():
    points = torus(6, 6).points
    moved = Shifts(6).act(points[None], torch.tensor([[1, 2]]))[0]
    step = ((points - moved + 1) % 2 - 1) * 3  # in grid points
    torch.testing.assert_close(step, torch.tensor([2.0, 1.0]).double().expand(36, 2))


@pytest.mark.parametrize("layout", ["driscoll-healy", "poles"])
def test_cells_of_one_pixel_are_the_pixels(layout):
    points = rastered_sphere((8, 16), layout)(8, 16).points
    torch.testing.assert_close(
        points.unflatten(0, (8, 16))[1:-1], equirectangular.directions(8, 16, layout)[1:-1], rtol=0, atol=1e-12
    )
    torch.testing.assert_close(points.norm(dim=-1), torch.ones(128).double())


def test_cells_lie_amid_their_pixels_and_areas_add_up():
    points, weights = RASTER(12, 24)
    pixels, areas = RASTER(24, 48)
    middle = pixels.unflatten(0, (12, 2, 24, 2)).mean((1, 3)).flatten(0, 1)
    cosine = torch.cosine_similarity(middle, points, dim=-1)
    assert cosine.min() > math.cos(math.radians(1.5))
    torch.testing.assert_close(areas.unflatten(0, (12, 2, 24, 2)).mean((1, 3)).flatten(), weights)


@pytest.mark.parametrize(("grid", "pixels"), [((8, 16), 2), ((16, 32), 1)])
def test_cells_at_the_seam_count_by_their_area(grid, pixels):
    """Where poles are on the raster, the seam is on it twice: cells there have half a pixel less."""
    for layout, share in (("driscoll-healy", 1), ("poles", 1 - 0.5 / pixels)):
        weights = rastered_sphere((16, 32), layout)(*grid).weights.unflatten(0, grid)
        inner = weights[:, 1:-1]
        torch.testing.assert_close(inner, inner[:, :1].expand_as(inner))
        torch.testing.assert_close(weights[:, [0, -1]], share * inner[:, :2])
    points, weights = rastered_sphere((16, 32), "poles")(16, 32)
    harmonics = sphere.spherical_harmonics(points, 4)
    gram = harmonics.T @ (harmonics * weights[:, None]) * 4 * math.pi / len(points)
    torch.testing.assert_close(gram, torch.eye(16).double(), rtol=0, atol=0.01)


def test_grids_finer_than_their_raster_stay_on_the_sphere():
    points, weights = rastered_sphere((6, 12), "poles")(24, 48)
    torch.testing.assert_close(points.norm(dim=-1), torch.ones(24 * 48).double())
    assert (weights > 0).all() and weights[:48].max() < 1e-3


def test_quadrature_weights_are_those_of_the_sphere():
    weights = quadrature_sphere(8, 8).weights
    torch.testing.assert_close(weights * 4 * math.pi / 64, sphere.quadrature_weights(8))
    with pytest.raises(ValueError, match="an even square"):
        quadrature_sphere(8, 10)
