"""Logarithms of rotations."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import niso


def rotations(count: int, size: int, dtype: torch.dtype, seed: int = 0) -> torch.Tensor:
    matrices = torch.randn(count, size, size, dtype=dtype, generator=torch.Generator().manual_seed(seed))
    return niso.polar(matrices, special=True)


@given(size=st.integers(1, 12), seed=st.integers(0, 99), double=st.booleans())
def test_its_exponential_is_the_rotation(size, seed, double):
    tau = rotations(3, size, torch.float64 if double else torch.float32, seed)
    w = niso.logarithm(tau)
    assert w.dtype == tau.dtype and w.shape == tau.shape
    torch.testing.assert_close(w, -w.mT)
    torch.testing.assert_close(torch.matrix_exp(w), tau, atol=1e-12 if double else 1e-5, rtol=0)
    assert torch.linalg.matrix_norm(w.double(), ord=2).max() <= math.pi + 1e-5


def test_half_of_a_rotation_twice_is_the_rotation():
    tau = rotations(2, 7, torch.float64)[:, None]
    half = torch.matrix_exp(0.5 * niso.logarithm(tau))
    torch.testing.assert_close(half @ half, tau)


def test_what_commutes_with_a_rotation_commutes_with_its_powers():
    blocks = rotations(2, 3, torch.float64)
    third = torch.matrix_exp(niso.logarithm(torch.block_diag(*blocks)) / 3)
    values = torch.tensor([1.0, 1, 1, 2, 2, 2]).double().diag()
    torch.testing.assert_close(third @ values, values @ third)


@pytest.mark.parametrize("signs", [(1, 1, 1), (-1, -1, 1), (-1, -1, -1, -1), (1, -1, -1, -1, -1)])
def test_half_turns(signs):
    turned = rotations(1, len(signs), torch.float64)[0]
    tau = turned @ torch.tensor(signs).double().diag() @ turned.mT
    w = niso.logarithm(tau)
    torch.testing.assert_close(torch.matrix_exp(w), tau)
    torch.testing.assert_close(w, -w.mT)


def test_what_has_no_logarithm_is_refused():
    with pytest.raises(ValueError, match=r"matrix 1 is a reflection.*: solve maps with special=True"):
        niso.logarithm(torch.stack([torch.eye(3), torch.diag(torch.tensor([1.0, -1, 1]))]))
    with pytest.raises(ValueError, match="needs orthogonal matrices"):
        niso.logarithm(1.01 * torch.eye(3))
    with pytest.raises(ValueError, match="needs orthogonal matrices"):
        niso.logarithm(torch.full((2, 2), math.nan))
    assert niso.logarithm(torch.empty(0, 3, 3)).shape == (0, 3, 3)


def test_the_default_device_changes_nothing():
    tau = rotations(1, 4, torch.float64)
    logarithm = niso.logarithm(tau)
    with torch.device("meta"):
        assert torch.equal(niso.logarithm(tau), logarithm)


def test_a_sign_that_is_kept_apart_is_heeded():
    tau = rotations(1, 4, torch.float64)
    kept_apart = torch.complex(tau, -tau).conj().imag
    assert kept_apart.is_neg() and torch.equal(niso.logarithm(kept_apart), niso.logarithm(tau))


def test_transformations_of_functions_are_refused():
    for transformed in (torch.func.grad(lambda tau: niso.logarithm(tau).sum()), torch.vmap(niso.logarithm)):
        with pytest.raises(NotImplementedError, match="logarithm cannot be taken under a transformation"):
            transformed(rotations(1, 3, torch.float32))
