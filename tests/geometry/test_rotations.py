import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import kstest

from niso.geometry.domains import equirectangular, sphere
from niso.geometry.rotation_group import rotation_matrices
from niso.geometry.rotations import Rotations

seeds = st.integers(0, 1000)


def rotations(count: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> torch.Tensor:
    return rotation_matrices(normal(count, 4, seed=seed, dtype=dtype))


def normal(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def rotate(z: torch.Tensor, r: torch.Tensor, bandwidth: int) -> torch.Tensor:
    return Rotations(math.isqrt(z.shape[1]), bandwidth).act(z, r)


def resample(z: torch.Tensor, r: torch.Tensor) -> torch.Tensor:
    return Rotations(math.isqrt(z.shape[1]), 1, exact=False).act(z, r)


def directions(count: int, seed: int = 0) -> torch.Tensor:
    return torch.nn.functional.normalize(normal(count, 3, seed=seed), dim=-1)


def functions(size: int, bandwidth: int, batch: int = 2, channels: int = 3, seed: int = 0) -> torch.Tensor:
    return sphere.harmonics(size, bandwidth).functions @ normal(batch, bandwidth**2, channels, seed=seed)


@given(seeds)
def test_rotations_are_rotations(seed):
    r = rotations(4, seed)
    torch.testing.assert_close(r @ r.mT, torch.eye(3, dtype=r.dtype).expand(4, 3, 3))
    torch.testing.assert_close(torch.linalg.det(r), torch.ones(4, dtype=r.dtype))


def test_quaternions_turn_by_their_angle_about_their_axis():
    half = math.pi / 6
    r = rotation_matrices(3 * torch.tensor([math.cos(half), 0, 0, math.sin(half)], dtype=torch.float64))
    x, z = torch.eye(3, dtype=torch.float64)[[0, 2]]
    torch.testing.assert_close(r @ x, torch.tensor([math.cos(2 * half), math.sin(2 * half), 0], dtype=torch.float64))
    torch.testing.assert_close(r @ z, z)


def test_rotations_are_uniform():
    """Images of any point are uniform (Archimedes: each coordinate is), and angles have density (1 − cos ω)/π."""
    r = rotations(4000)
    point = directions(1)[0]
    for coordinate in (r @ point).T:
        assert kstest(coordinate.numpy(), "uniform", (-1, 2)).pvalue > 0.001
    trace = r.diagonal(dim1=-2, dim2=-1).sum(-1)
    angle = ((trace - 1) / 2).clamp(-1, 1).acos().numpy()
    assert kstest(angle, lambda w: (w - np.sin(w)) / np.pi).pvalue > 0.001
    fixed = rotations(1, 7)[0]  # the distribution is that of fixed · r: means of Wigner-D entries vanish
    assert sphere.wigner_d(fixed @ r, 3).mean(0)[1:, 1:].abs().max() < 0.05


@given(st.sampled_from([(2, 1), (8, 4), (8, 2), (16, 8)]), seeds)
def test_exact_rotations_form_a_group_of_isometries(shape, seed):
    size, bandwidth = shape
    z, r, s = functions(size, bandwidth, seed=seed), rotations(2, seed), rotations(2, seed + 1)
    once = rotate(z, r, bandwidth)
    torch.testing.assert_close(rotate(once, s, bandwidth), rotate(z, s @ r, bandwidth))
    torch.testing.assert_close(rotate(once, r.mT, bandwidth), z)
    norms = [(sphere.quadrature_weights(size)[:, None] * part.square()).sum(1) for part in (z, once)]
    torch.testing.assert_close(*norms)


def test_exact_rotation_moves_a_function_with_the_sphere():
    """(Rf)(x) = f(R⁻¹x), at the points of the grid, for a function known everywhere."""
    r, coefficients = rotations(1), normal(16, 2)
    points = equirectangular.directions(8, 8, "driscoll-healy").flatten(0, 1)
    z = sphere.spherical_harmonics(points, 4) @ coefficients
    moved = sphere.spherical_harmonics(points @ r[0], 4) @ coefficients
    torch.testing.assert_close(rotate(z[None], r, 4)[0], moved)


def test_one_rotation_serves_a_batch_and_keeps_the_dtype(dtype, tolerance):
    z, r = functions(8, 4).to(dtype), rotations(1, dtype=dtype)
    together = rotate(z, r, 4)
    assert together.dtype == dtype
    torch.testing.assert_close(together[1:], rotate(z[1:], r, 4), atol=tolerance, rtol=tolerance)


def test_resampling_tends_to_the_exact_rotation():
    """Its error falls with the square of the spacing."""
    errors = []
    for size in (16, 32, 64):
        z, r = functions(size, 3, batch=4), rotations(4)
        exact = rotate(z, r, 3)
        errors.append(((resample(z, r) - exact).norm() / exact.norm()).item())
    assert errors[0] < 0.1
    assert errors[0] / errors[1] > 3 and errors[1] / errors[2] > 3


def test_resampling_by_turns_about_the_axis_is_a_shift():
    z = normal(1, 64, 2)
    quarter = rotation_matrices(torch.tensor([[1.0, 0, 0, 1]], dtype=torch.float64))
    shifted = z.unflatten(1, (8, 8)).roll(2, dims=2).flatten(1, 2)
    torch.testing.assert_close(resample(z, quarter), shifted)


def test_strength_is_the_angle_in_degrees():
    half = torch.tensor([0.0, 0.1, 1.0, math.pi / 2], dtype=torch.float64)
    axis = half.sin()[:, None] * directions(4)
    matrices = rotation_matrices(torch.cat([half.cos()[:, None], axis], dim=-1))
    torch.testing.assert_close(Rotations(8, 4).strength(matrices), (2 * half).rad2deg())


def test_samples_are_the_numbers_of_earlier_records(generator):
    expected = rotation_matrices(torch.randn(5, 4, generator=torch.Generator().manual_seed(0)))
    assert torch.equal(Rotations(8, 4).sample(5, generator), expected)


@pytest.mark.parametrize("exact", [True, False])
def test_other_grids_are_refused(exact):
    with pytest.raises(ValueError, match="16 points are not a 8×8 grid"):
        Rotations(8, 4, exact).act(torch.zeros(1, 16, 1), rotations(1))
    with pytest.raises(ValueError, match="bandwidth 5 does not fit the 8×8 grid"):
        Rotations(8, 5, exact)
