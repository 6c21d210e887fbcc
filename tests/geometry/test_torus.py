import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from niso.geometry import torus

SIZES = [1, 2, 3, 4, 5, 8]
offsets = st.tuples(st.integers(-50, 50), st.integers(-50, 50))


def functions(size: int, batch: int = 2, channels: int = 3) -> torch.Tensor:
    generator = torch.Generator().manual_seed(size)
    return torch.randn(batch, size * size, channels, generator=generator, dtype=torch.float64)


@given(st.sampled_from(SIZES), offsets, offsets)
def test_shift_is_torch_roll(size, first, second):
    x = functions(size)
    shifted = torus.shift(x, torch.tensor([first, second]), size)
    images = x.unflatten(1, (size, size))
    rolled = [image.roll(by, dims=(0, 1)) for image, by in zip(images, (first, second), strict=True)]
    assert torch.equal(shifted, torch.stack(rolled).flatten(1, 2))


@given(st.sampled_from(SIZES), offsets, offsets)
def test_shifts_form_a_group(size, first, second):
    x, one, two = functions(size), torch.tensor([first] * 2), torch.tensor([second] * 2)
    assert torch.equal(torus.shift(torus.shift(x, one, size), two, size), torus.shift(x, one + two, size))
    assert torch.equal(torus.shift(torus.shift(x, one, size), -one, size), x)
    assert torch.equal(torus.shift(x, torch.tensor([[0, 0], [size, -size]]), size), x)


def test_shift_refuses_other_grids():
    with pytest.raises(ValueError, match="15 points are not a 4×4 grid"):
        torus.shift(torch.zeros(1, 15, 1), torch.zeros(1, 2, dtype=torch.long), 4)


@pytest.mark.parametrize("size", SIZES)
def test_harmonics_are_an_orthonormal_basis(size):
    basis = torus.harmonics(size).functions
    torch.testing.assert_close(basis.mT @ basis, torch.eye(size * size, dtype=torch.float64))


@pytest.mark.parametrize("size", SIZES)
def test_planes_are_invariant_under_all_shifts(size):
    truth = torus.harmonics(size)
    other = truth.spaces[:, None] != truth.spaces[None, :]
    for offset in torch.cartesian_prod(torch.arange(size), torch.arange(size)):
        moved = torus.shift(truth.functions[None], offset[None], size)[0]
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
    shift, laplacian = torus.shift(eye, offset, 5)[0], torus.laplacian(5)
    torch.testing.assert_close(shift @ laplacian, laplacian @ shift)


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
