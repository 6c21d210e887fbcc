import pytest
import torch

from niso.geometry.domains import domain, torus
from niso.geometry.shifts import Shifts

SIZES = [1, 2, 3, 4, 5, 8]


@pytest.mark.parametrize("size", SIZES)
def test_harmonics_are_an_orthonormal_basis(size):
    basis = torus.harmonics(size).functions
    torch.testing.assert_close(basis.mT @ basis, torch.eye(size * size, dtype=torch.float64))


@pytest.mark.parametrize("size", SIZES)
def test_planes_are_invariant_under_all_shifts(size):
    truth = torus.harmonics(size)
    other = truth.spaces[:, None] != truth.spaces[None, :]
    for offset in torch.cartesian_prod(torch.arange(size), torch.arange(size)):
        moved = Shifts(size).act(truth.functions[None], offset[None])[0]
        between = truth.functions.mT @ moved
        assert between[other].abs().sum() < 1e-9


@pytest.mark.parametrize("size", SIZES)
def test_planes_have_two_dimensions_or_are_self_conjugate(size):
    truth = torus.harmonics(size)
    dimensions = truth.spaces.bincount()
    conjugate = ((2 * truth.frequencies) % size == 0).all(-1)
    assert torch.equal(dimensions[truth.spaces] == 1, conjugate)
    assert int(dimensions.max()) <= 2
    assert int(conjugate.sum()) == (4 if size % 2 == 0 else 1)


@pytest.mark.parametrize("size", SIZES)
def test_harmonics_are_eigenfunctions_of_the_laplacian(size):
    truth, laplacian = torus.harmonics(size), torus.laplacian(size)
    torch.testing.assert_close(laplacian @ truth.functions, truth.functions * truth.eigenvalues)
    torch.testing.assert_close(laplacian, laplacian.mT)
    assert (truth.eigenvalues.diff() > -1e-9).all()  # ascending
    assert truth.eigenvalues[0] == pytest.approx(0, abs=1e-12)


def test_laplacian_commutes_with_shifts():
    eye, offset = torch.eye(25, dtype=torch.float64)[None], torch.tensor([[2, 4]])
    moved, laplacian = Shifts(5).act(eye, offset)[0], torus.laplacian(5)
    torch.testing.assert_close(moved @ laplacian, laplacian @ moved)


def test_spectrum_on_16_by_16():
    """37 distinct eigenvalues, of multiplicities 8 (×21), 4 (×14), 1 (λ = 0) and 31 (λ = 4)."""
    values = torch.linalg.eigvalsh(torus.laplacian(16))
    torch.testing.assert_close(values, torus.harmonics(16).eigenvalues)
    distinct, counts = values.mul(1e6).round().unique(return_counts=True)
    by_value = dict(zip((distinct / 1e6).tolist(), counts.tolist(), strict=True))
    assert len(by_value) == 37
    assert by_value.pop(0.0) == 1
    assert by_value.pop(4.0) == 31
    assert sorted(by_value.values()) == [4] * 14 + [8] * 21


def test_waves_at_the_grid_are_the_harmonics():
    truth = torus.harmonics(6, 3)
    assert truth.functions.shape == (36, 25)
    at_grid = torus.waves(domain.torus(6, 6).points, 6, 3)
    torch.testing.assert_close(at_grid / at_grid.norm(dim=0), truth.functions, rtol=0, atol=1e-12)
    fine = torus.waves(domain.torus(12, 12).points, 6, 3)
    gram = fine.mT @ fine / 144
    torch.testing.assert_close(gram, gram.diagonal().diag(), rtol=0, atol=1e-12)


def test_band_limited_functions_are_waves():
    z = torch.randn(2, 36, 3).double()
    once = torus.band_limited(z, 2)
    torch.testing.assert_close(torus.band_limited(once, 2), once)
    functions = torus.harmonics(6, 2).functions
    torch.testing.assert_close(functions.mT @ once, functions.mT @ z)
    with pytest.raises(ValueError, match="bandwidth 4 does not fit the 6×6 torus"):
        torus.band_limited(z, 4)
