import math

import numpy as np
import pytest
import torch
from e3nn import o3
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import sph_harm_y

from niso.geometry.domains import equirectangular, sphere
from niso.geometry.rotation_group import rotation_matrices
from niso.geometry.rotations import Rotations

BANDWIDTHS = [1, 2, 3, 4, 8]
seeds = st.integers(0, 1000)


def rotations(count: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> torch.Tensor:
    return rotation_matrices(normal(count, 4, seed=seed, dtype=dtype))


def normal(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def directions(count: int, seed: int = 0) -> torch.Tensor:
    return torch.nn.functional.normalize(normal(count, 3, seed=seed), dim=-1)


def functions(size: int, bandwidth: int, batch: int = 2, channels: int = 3, seed: int = 0) -> torch.Tensor:
    return sphere.harmonics(size, bandwidth).functions @ normal(batch, bandwidth**2, channels, seed=seed)


# The grid and its quadrature


@pytest.mark.parametrize("bandwidth", BANDWIDTHS)
def test_harmonics_are_orthonormal_under_the_quadrature(bandwidth):
    truth = sphere.harmonics(2 * bandwidth)
    gram = truth.functions.mT @ (truth.functions * truth.weights[:, None])
    torch.testing.assert_close(gram, torch.eye(bandwidth**2, dtype=torch.float64), atol=1e-12, rtol=0)
    assert torch.equal(truth.spaces.bincount(), 2 * torch.arange(bandwidth) + 1)
    assert torch.equal(truth.eigenvalues, (truth.spaces * (truth.spaces + 1)).double())


@pytest.mark.parametrize("size", [2, 4, 16])
def test_quadrature_is_exact_below_the_size_and_positive(size):
    weights = sphere.quadrature_weights(size)
    assert weights.sum().item() == pytest.approx(4 * math.pi)
    assert (weights > 0).all()
    points = equirectangular.directions(size, size, "driscoll-healy").flatten(0, 1)
    integrals = weights @ sphere.spherical_harmonics(points, size)
    assert integrals[0].item() == pytest.approx(math.sqrt(4 * math.pi))
    assert integrals[1:].abs().max().item() < 1e-12


@pytest.mark.parametrize(("size", "determined"), [(8, 40), (16, 176)])
def test_rotations_leave_part_of_the_mass_open(size, determined):
    """Weights may change by whatever is orthogonal to all products of two harmonics; those given are the shortest."""
    truth = sphere.harmonics(size)
    points = equirectangular.directions(size, size, "driscoll-healy").flatten(0, 1)
    products = sphere.spherical_harmonics(points, size - 1)  # degrees below 2B − 1 are what products consist of
    span, strength, _ = torch.linalg.svd(products)
    assert (strength > 1e-9 * strength[0]).sum() == determined
    free = span[:, determined:]
    assert (truth.weights @ free).abs().max() < 1e-12
    changed = truth.weights + free @ normal(size**2 - determined)
    gram = truth.functions.mT @ (truth.functions * changed[:, None])
    torch.testing.assert_close(gram, torch.eye(len(gram), dtype=torch.float64), atol=1e-10, rtol=0)
    sine = equirectangular.colatitudes(size, "driscoll-healy").sin()
    alternating = (sine * (-1.0) ** torch.arange(size)).repeat_interleave(size)  # from row to row
    assert (alternating @ products).abs().max() < 1e-10


def test_weights_are_nearly_the_areas_of_the_cells():
    """Smallest at the poles, where the grid is densest."""
    rings = sphere.quadrature_weights(16).view(16, 16)
    colatitude = equirectangular.colatitudes(16, "driscoll-healy")
    assert torch.cosine_similarity(rings[:, 0], colatitude.sin(), dim=0) > 0.999
    assert rings[:, 0].argmin() in (0, 15)
    torch.testing.assert_close(rings, rings.flip(0))
    assert torch.equal(rings, rings[:, :1].expand(16, 16))


def test_harmonics_are_those_of_scipy():
    """Real ones, from the complex ones of Condon and Shortley."""
    points = directions(100)
    theta, phi = points[:, 2].acos().numpy(), torch.atan2(points[:, 1], points[:, 0]).numpy()
    columns = []
    for ell in range(12):
        for m in range(-ell, ell + 1):
            value = sph_harm_y(ell, abs(m), theta, phi)
            part = value.imag if m < 0 else value.real
            columns.append(part if m == 0 else math.sqrt(2) * (-1) ** m * part)
    torch.testing.assert_close(sphere.spherical_harmonics(points, 12), torch.from_numpy(np.stack(columns, -1)))


def test_first_harmonics_are_constant_and_linear(dtype, tolerance):
    points = directions(20).to(dtype)
    values = sphere.spherical_harmonics(points, 2)
    assert values.dtype == dtype
    expected = torch.cat([torch.full((20, 1), 0.5), math.sqrt(0.75) * points[:, [1, 2, 0]]], -1) / math.sqrt(math.pi)
    torch.testing.assert_close(values, expected.to(dtype), atol=tolerance, rtol=tolerance)


def test_harmonics_are_smooth_at_the_poles():
    poles = torch.tensor([[0.0, 0, 1], [0, 0, -1]], dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda p: sphere.spherical_harmonics(p, 5), poles)


def test_laplacian_has_the_harmonics():
    truth, laplacian = sphere.harmonics(8, 3), sphere.laplacian(8, 3)
    torch.testing.assert_close(laplacian @ truth.functions, truth.functions * truth.eigenvalues)
    others = sphere.harmonics(8).functions[:, 9:]
    assert (laplacian @ others).abs().max() < 1e-12
    weighted = truth.weights[:, None] * laplacian
    torch.testing.assert_close(weighted, weighted.mT)


# Rotations


@given(seeds)
def test_wigner_matrices_are_an_orthogonal_representation(seed):
    r, s = rotations(2, seed)
    d = sphere.wigner_d(torch.stack([r, s, r @ s, r.mT]), 8)
    torch.testing.assert_close(d[0] @ d[1], d[2])
    torch.testing.assert_close(d[0].mT, d[3])
    torch.testing.assert_close(d[0] @ d[0].mT, torch.eye(64, dtype=torch.float64))
    ells = sphere.degrees(8)
    assert (d[:, ells[:, None] != ells] == 0).all()


def test_wigner_matrices_are_those_of_e3nn():
    """Its degree 1 is (x, y, z) where ours is (y, z, x)."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)  # e3nn's constants follow it
    try:
        r = rotations(5)
        theirs = r[:, [1, 2, 0]][:, :, [1, 2, 0]]
        ours = sphere.wigner_d(r, 8)
        for ell in range(8):
            block = slice(ell**2, (ell + 1) ** 2)
            torch.testing.assert_close(ours[:, block, block], o3.Irrep(ell, 1).D_from_matrix(theirs))
    finally:
        torch.set_default_dtype(before)


def test_float32_is_accurate(dtype, tolerance):
    r = rotations(8)
    exact = sphere.wigner_d(r, 8)
    torch.testing.assert_close(sphere.wigner_d(r.to(dtype), 8).double(), exact, atol=tolerance, rtol=0)


def test_identity_and_reflection():
    eye = torch.eye(3, dtype=torch.float64)
    torch.testing.assert_close(sphere.wigner_d(eye, 4), torch.eye(16, dtype=torch.float64))
    parity = torch.diag((-1.0) ** sphere.degrees(4)).double()
    torch.testing.assert_close(sphere.wigner_d(-eye, 4), parity)


@given(seeds)
def test_characters_are_traces_and_closed_forms(seed):
    r = rotations(3, seed)
    d, ells = sphere.wigner_d(r, 6), sphere.degrees(6)
    traces = torch.stack([d.diagonal(dim1=1, dim2=2)[:, ells == ell].sum(-1) for ell in range(6)], -1)
    torch.testing.assert_close(sphere.characters(r, 6), traces)
    omega = ((r.diagonal(dim1=-2, dim2=-1).sum(-1, keepdim=True) - 1) / 2).acos()
    closed = torch.sin((torch.arange(6) + 0.5) * omega) / torch.sin(omega / 2)
    torch.testing.assert_close(traces, closed, atol=1e-6, rtol=1e-6)
    torch.testing.assert_close(
        sphere.characters(torch.eye(3, dtype=torch.float64), 6), 2 * torch.arange(6, dtype=torch.float64) + 1
    )


@given(seeds)
def test_band_limiting_is_a_projection_that_commutes_with_rotations(seed):
    z, r = normal(2, 64, 3, seed=seed), rotations(2, seed)
    kept, action = sphere.band_limited(z, 3), Rotations(8, 3)
    torch.testing.assert_close(sphere.band_limited(kept, 3), kept)
    torch.testing.assert_close(action.act(z, r), action.act(kept, r))
    low = functions(8, 3, seed=seed)
    torch.testing.assert_close(sphere.band_limited(low, 3), low)


# What is refused


@pytest.mark.parametrize(
    ("height", "width", "bandwidth", "reason"),
    [
        (15, 15, 4, "a 15×15 grid is not Driscoll–Healy: bandwidth B needs 2B×2B points"),
        (16, 32, 4, "a 16×32 grid is not Driscoll–Healy"),
        (0, 0, 1, "a 0×0 grid is not Driscoll–Healy"),
        (16, 16, 9, "bandwidth 9 does not fit the 16×16 grid, whose quadrature is exact for 1 to 8 only"),
        (16, 16, 0, "bandwidth 0 does not fit"),
    ],
)
def test_refused_grids_and_bandwidths(height, width, bandwidth, reason):
    with pytest.raises(ValueError, match=reason):
        sphere.check_grid(height, width, bandwidth)


def test_functions_off_the_grid_are_refused():
    for points in (60, 49):
        with pytest.raises(ValueError, match=r"not (a )?Driscoll–Healy"):
            sphere.band_limited(torch.zeros(1, points, 1), 2)
    with pytest.raises(ValueError, match="bandwidth 5 does not fit the 8×8 grid"):
        sphere.band_limited(torch.zeros(1, 64, 1), 5)
    with pytest.raises(ValueError, match="bandwidth 5 does not fit the 8×8 grid"):
        sphere.harmonics(8, 5)
