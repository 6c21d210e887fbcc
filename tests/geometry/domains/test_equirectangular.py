import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from niso.geometry.domains import equirectangular as grid

LAYOUTS = ["driscoll-healy", "poles"]
layouts = st.sampled_from(LAYOUTS)


def directions(count: int, seed: int = 0) -> torch.Tensor:
    points = torch.randn(1, 1, count, 3, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return torch.nn.functional.normalize(points, dim=-1)


def smooth(places: torch.Tensor) -> torch.Tensor:
    """A smooth function on the sphere: (batch, rows, columns, 3) to (batch, 1, rows, columns)."""
    x, y, z = places.unbind(-1)
    return (x * y + z**3 - 0.5 * x)[:, None]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_directions_are_unit_vectors_with_these_angles(layout, dtype, tolerance):
    points = grid.directions(5, 7, layout, dtype)
    assert points.shape == (5, 7, 3) and points.dtype == dtype
    torch.testing.assert_close(points.norm(dim=-1), torch.ones(5, 7, dtype=dtype))
    theta = points[..., 2].double().acos()
    torch.testing.assert_close(theta, grid.colatitudes(5, layout)[:, None].expand(5, 7), atol=1e-3, rtol=0)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_directions_are_computed_once(layout):
    with torch.inference_mode():
        points = grid.directions(4, 5, layout, torch.float32)
    assert grid.directions(4, 5, layout, torch.float32) is points and not points.is_inference()


def test_layouts_are_as_stated():
    torch.testing.assert_close(grid.colatitudes(2, "driscoll-healy"), math.pi * torch.tensor([0.25, 0.75]).double())
    torch.testing.assert_close(grid.longitudes(2, "driscoll-healy"), math.pi * torch.tensor([0.0, 1.0]).double())
    torch.testing.assert_close(grid.colatitudes(3, "poles"), math.pi * torch.tensor([0.0, 0.5, 1.0]).double())
    torch.testing.assert_close(grid.longitudes(3, "poles"), math.pi * torch.tensor([0.0, 1.0, 2.0]).double())


@pytest.mark.parametrize("layout", LAYOUTS)
def test_grid_points_keep_their_values(layout, dtype, tolerance):
    points = grid.directions(6, 8, layout, torch.float64)[None]
    images = smooth(points)
    torch.testing.assert_close(grid.sample(images, points, layout), images)
    values = grid.sample(images.to(dtype), (3 * points).to(dtype), layout)
    assert values.dtype == dtype
    torch.testing.assert_close(values, images.to(dtype), atol=10 * tolerance, rtol=0)


@given(layouts, st.integers(2, 9), st.integers(2, 9))
def test_constants_stay_and_values_lie_between(layout, height, width):
    places = directions(100, seed=height)
    torch.testing.assert_close(
        grid.sample(torch.full((1, 1, height, width), 3.0).double(), places, layout),
        torch.full((1, 1, 1, 100), 3.0).double(),
    )
    noise = torch.rand(1, 2, height, width, dtype=torch.float64)
    values = grid.sample(noise, places, layout)
    assert (values <= noise.amax((-2, -1), keepdim=True) + 1e-12).all()
    assert (values >= noise.amin((-2, -1), keepdim=True) - 1e-12).all()


@pytest.mark.parametrize("layout", LAYOUTS)
def test_interpolation_is_of_second_order(layout):
    places = directions(500)
    errors = []
    for size in (16, 32, 64):
        images = smooth(grid.directions(size, 2 * size, layout)[None])
        errors.append((grid.sample(images, places, layout) - smooth(places)).abs().mean().item())
    assert errors[0] < 0.02 and errors[0] / errors[1] > 3 and errors[1] / errors[2] > 3


@pytest.mark.parametrize("layout", LAYOUTS)
def test_values_are_continuous_across_seam_and_poles(layout):
    images = torch.rand(1, 1, 6, 8, dtype=torch.float64)
    if layout == "poles":  # the seam's two columns are one, and a pole's row is one point
        images[..., -1] = images[..., 0]
        images[..., [0, -1], :] = images[..., [0, -1], :1]
    phi = torch.linspace(0, 6, 30, dtype=torch.float64)
    for side in (1.0, -1.0):
        ring = torch.stack([1e-7 * phi.cos(), 1e-7 * phi.sin(), torch.full_like(phi, side)], -1)
        near = grid.sample(images, ring[None, None], layout)
        pole = grid.sample(images, torch.tensor([[[[0.0, 0.0, side]]]], dtype=torch.float64), layout)
        assert (near - pole).abs().max() < 1e-5
    theta = torch.linspace(0.1, 3, 30, dtype=torch.float64)
    east, west = (torch.stack([theta.sin(), turn * theta.sin(), theta.cos()], -1)[None, None] for turn in (1e-9, -1e-9))
    torch.testing.assert_close(grid.sample(images, east, layout), grid.sample(images, west, layout), atol=1e-6, rtol=0)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_gradients_are_exact_and_finite(layout):
    images = torch.rand(1, 2, 4, 6, dtype=torch.float64, requires_grad=True)
    places = directions(8).requires_grad_()
    assert torch.autograd.gradcheck(lambda i, p: grid.sample(i, p, layout), (images, places))
    poles = torch.tensor([[[[0.0, 0, 1], [0, 0, -1]]]], dtype=torch.float64, requires_grad=True)
    grid.sample(images, poles, layout).sum().backward()
    assert poles.grad is not None and poles.grad.isfinite().all() and images.grad.isfinite().all()


def test_refused_grids_and_layouts():
    with pytest.raises(ValueError, match="a 1×8 grid is too small"):
        grid.sample(torch.zeros(1, 1, 1, 8), torch.zeros(1, 1, 1, 3), "poles")
