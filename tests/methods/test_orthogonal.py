"""The ablation without an operator: its maps against the full Procrustes problem, its losses against NIso's."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

import niso
from niso.methods.orthogonal import OrthogonalAutoencoder, OrthogonalObjective, orthogonal_map, orthogonal_parts
from niso.spectrum import Spectrum

dtypes = pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 2e-5), (torch.float64, 1e-12)])


def normal(*shape: int, dtype: torch.dtype = torch.float64, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


class Points(nn.Module):
    """The points themselves as eigenfunctions, of mass 1."""

    def forward(self) -> Spectrum:
        eye = torch.eye(6, dtype=torch.float64)
        return Spectrum(eye[0] * 0 + 1, eye, eye[0] * 0)


@settings(max_examples=20, deadline=None)
@given(points=st.integers(1, 9), channels=st.integers(1, 9), seed=st.integers(0, 99))
def test_it_is_a_partial_isometry_that_no_orthogonal_map_beats(points: int, channels: int, seed: int) -> None:
    rank = min(points, channels)
    a, b = normal(2, points, channels, seed=seed), normal(2, points, channels, seed=seed + 1)
    parts = orthogonal_parts(a, b)
    tau, best = parts.matrix(), niso.isometric_map(a, b, torch.zeros(points, dtype=a.dtype), mask=None)
    singular = torch.linalg.svdvals(tau)
    torch.testing.assert_close(singular[:, :rank], torch.ones_like(singular[:, :rank]))
    assert bool((singular[:, rank:] < 1e-12).all())
    torch.testing.assert_close(tau @ a, best @ a, rtol=1e-7, atol=1e-9)
    torch.testing.assert_close(tau.mT @ b, best.mT @ b, rtol=1e-7, atol=1e-9)
    torch.testing.assert_close(parts.inverse().matrix(), tau.mT)
    torch.testing.assert_close(parts.move(a), tau @ a)
    torch.testing.assert_close(orthogonal_map(a, b), tau)


@settings(max_examples=20, deadline=None)
@given(points=st.integers(1, 9), channels=st.integers(1, 9), seed=st.integers(0, 99))
def test_a_completed_map_is_orthogonal_and_moves_what_is_seen_likewise(points: int, channels: int, seed: int) -> None:
    a, b = normal(2, points, channels, seed=seed), normal(2, points, channels, seed=seed + 1)
    whole = orthogonal_map(a, b, complete=True)
    torch.testing.assert_close(whole.mT @ whole, torch.eye(points, dtype=a.dtype).expand_as(whole))
    torch.testing.assert_close(whole @ a, orthogonal_map(a, b) @ a, rtol=1e-7, atol=1e-9)


@dtypes
def test_a_planted_map_is_found_on_the_span_that_is_seen(dtype: torch.dtype, tolerance: float) -> None:
    planted = torch.linalg.qr(normal(8, 8))[0].to(dtype)
    a = normal(3, 8, 4, dtype=dtype)
    found = orthogonal_parts(a, planted @ a)
    torch.testing.assert_close(found.move(a), planted @ a, rtol=0, atol=tolerance * 10)


def test_what_dependent_channels_do_not_show_is_zero() -> None:
    a, b = normal(2, 8, 3), normal(2, 8, 3, seed=1)
    a[0, :, 1] = 0
    a[1, :, 2] = a[1, :, 0]
    b[0, :, 1] = b[0, :, 2]
    tau = orthogonal_map(a, b)
    ranks = torch.linalg.matrix_rank(tau, atol=1e-6)
    assert ranks.tolist() == [2, 2]
    torch.testing.assert_close(tau @ a, orthogonal_parts(a, b).move(a))


def test_gradients_are_exact() -> None:
    a, b = (normal(2, 5, 3, seed=seed).requires_grad_() for seed in (0, 1))
    assert torch.autograd.gradcheck(lambda a, b: orthogonal_parts(a, b).move(a), (a, b))
    assert torch.autograd.gradcheck(orthogonal_map, (a, b))


def test_the_losses_are_those_without_a_mask_in_the_basis_of_points() -> None:
    encoder, decoder = nn.Linear(4, 3, dtype=torch.float64), nn.Linear(3, 4, dtype=torch.float64)
    x, tx = normal(5, 6, 4), normal(5, 6, 4, seed=1)
    for relative in (False, True):
        ours = OrthogonalObjective(OrthogonalAutoencoder(encoder, decoder, relative=relative), 0.5)
        same = niso.NeuralIsometry(encoder, decoder, Points(), mask=None, relative=relative)
        found, wanted = ours((x, tx), 0.0), same(x, tx)
        torch.testing.assert_close(found["loss"], wanted.loss(0.5, 0.0))
        gradient = [torch.autograd.grad(loss, encoder.weight)[0] for loss in (found["loss"], wanted.loss(0.5, 0.0))]
        torch.testing.assert_close(*gradient, rtol=1e-6, atol=1e-9)


def test_gradients_are_finite_where_latents_lack_directions():
    """As those of blank images at the start of training."""
    dead = torch.randn(2, 16, 4)
    dead[..., 1] = 0
    for a in (dead, torch.zeros(2, 16, 4), torch.ones(2, 16, 4)):
        a, b = a.requires_grad_(), torch.randn(2, 16, 4)
        orthogonal_parts(a, b).move(a).square().sum().backward()
        assert a.grad.isfinite().all()
        a.grad = None
        orthogonal_map(a, b).square().sum().backward()  # as losses on maps have it
        assert a.grad.isfinite().all()


def test_maps_are_applied_in_full_precision_under_autocast():
    a = torch.randn(2, 16, 4)
    b = torch.linalg.qr(torch.randn(16, 16)).Q @ a
    with torch.autocast("cpu", dtype=torch.bfloat16):
        torch.testing.assert_close(orthogonal_parts(a, b).move(a), b, atol=1e-4, rtol=0)
        assert OrthogonalAutoencoder(nn.Linear(4, 4), nn.Identity()).encode(a).dtype == torch.float32
