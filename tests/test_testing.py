"""The public assertions pass when they should, and fail when they should."""

from functools import partial

import pytest
import torch

from niso import Spectrum, isometric_map
from niso.testing import assert_equivariant, assert_isometry, relative_error


def test_relative_error():
    assert relative_error(torch.tensor([3.0, 4.0]), torch.tensor([0.0, 4.0])) == pytest.approx(0.75)
    assert relative_error(torch.zeros(2), torch.zeros(2)) == 0
    assert relative_error(torch.ones(1), torch.zeros(1)) > 1e20


def test_equivariance_and_invariance():
    x, shift = torch.randn(8), lambda t: t.roll(3)
    assert_equivariant(lambda t: t**2, x, shift, shift)
    assert_equivariant(torch.sum, x, shift)
    with pytest.raises(AssertionError, match=r"equivariance error \S+ exceeds 0.0001"):
        assert_equivariant(lambda t: t.cumsum(0), x, shift, shift)
    with pytest.raises(AssertionError):
        assert_equivariant(lambda t: t**2, x, shift)  # equivariant but not invariant
    assert_equivariant(lambda t: t.cumsum(0), x, shift, shift, tolerance=1e6)


def test_functions_that_change_what_they_get_are_told_apart():
    x = torch.ones(8)
    with pytest.raises(AssertionError, match=r"equivariance error 0\.5 exceeds"):
        assert_equivariant(lambda t: t, x, lambda t: t.mul_(2), lambda t: 4 * t)
    assert_equivariant(lambda t: t.mul_(3), x, lambda t: t.mul_(2), lambda t: t.mul_(2))
    assert torch.equal(x, torch.ones(8))


def test_what_compares_nothing_is_refused():
    for check in (
        partial(relative_error, torch.zeros(0), torch.zeros(0)),
        partial(assert_isometry, torch.eye(3)[None][:0]),
    ):
        with pytest.raises(ValueError, match="nothing to compare in"):
            check()


def test_nan_is_never_within_tolerance():
    with pytest.raises(AssertionError, match="nan"):
        assert_equivariant(lambda t: t * float("nan"), torch.ones(3), lambda t: t, tolerance=1e9)
    with pytest.raises(AssertionError, match="nan"):
        assert_isometry(torch.full((2, 2), float("nan")))


def test_isometry():
    spectrum = Spectrum(torch.ones(3), torch.eye(3), torch.tensor([0.0, 0.0, 2.0]))
    rotation = torch.tensor([[0.6, -0.8, 0.0], [0.8, 0.6, 0.0], [0.0, 0.0, -1.0]])
    assert_isometry(rotation, spectrum)
    assert_isometry(rotation.expand(4, 2, 3, 3), spectrum)
    swap = rotation[:, [2, 1, 0]]  # orthogonal, but mixes eigenvalues 0 and 2
    assert_isometry(swap)
    with pytest.raises(AssertionError, match=r"τΛ ≠ Λτ: mixing of eigenspaces \S+ exceeds 0.0001$"):
        assert_isometry(swap, spectrum)
    with pytest.raises(AssertionError, match=r"τᵀτ − I \S+ exceeds"):
        assert_isometry(1.01 * rotation, spectrum)
    with pytest.raises(AssertionError):
        assert_isometry(torch.stack([rotation, 1.01 * rotation]))
    assert_isometry(1.01 * rotation, tolerance=0.1)


def test_complex_numbers_are_compared_as_they_are():
    assert relative_error(torch.tensor([1j, 2j]), torch.tensor([5j, 7j])) > 0.5
    with pytest.raises(AssertionError):
        assert_equivariant(lambda x: x * 1j, torch.randn(3) + 0j, lambda x: 2 * x)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_exchanged_eigenspaces_are_seen_beside_large_eigenvalues(dtype):
    values = torch.tensor([0.0, 1.0, 2e4], dtype=dtype)
    spectrum = Spectrum(torch.ones(3, dtype=dtype), torch.eye(3, dtype=dtype), values)
    with pytest.raises(AssertionError, match="mixing of eigenspaces"):
        assert_isometry(torch.eye(3, dtype=dtype)[[1, 0, 2]], spectrum)


@pytest.mark.parametrize("mask", ["soft", "exact"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_maps_of_the_library_pass(mask, dtype):
    """Also where equal eigenvalues differ by rounding, or 0 is not quite 0."""
    values = torch.tensor([0, 0, 40, 40, 40, 2e4, 2e4, 3e4], dtype=dtype)
    values = values + 1e-7 * values * torch.rand(8, dtype=dtype) + 1e-5 * torch.rand(8, dtype=dtype)
    spectrum = Spectrum(torch.ones(8, dtype=dtype), torch.eye(8, dtype=dtype), values)
    a, b = torch.randn(2, 5, 8, 12, dtype=dtype)
    assert_isometry(isometric_map(a, b, values, mask), spectrum)
    with pytest.raises(AssertionError, match=r"exceeds 0\.0001 in map \d$"):
        assert_isometry(isometric_map(a, b, values, None), spectrum)


def test_the_worst_map_is_named():
    tau = torch.eye(8).repeat(1_000, 1, 1)
    tau[7] *= 1.001
    with pytest.raises(AssertionError, match=r"τᵀτ − I 0\.002 exceeds 0\.0001 in map 7$"):
        assert_isometry(tau)
    with pytest.raises(AssertionError, match=r"in map \(0, 7\)$"):
        assert_isometry(tau[None])


def test_the_worst_row_is_named():
    x = torch.randn(1_000, 8)
    wrong = torch.arange(1_000)[:, None] == 7
    with pytest.raises(AssertionError, match=r"exceeds 0\.0001 in row 7$"):
        assert_equivariant(lambda x: torch.where(wrong & (x > 0), 1.005 * x, x), x, torch.neg, torch.neg)
    x[3] = 0  # rounding of a row that is small beside the others is none of its own size
    assert_equivariant(lambda x: x + 1e-7, x, torch.neg, torch.neg)
