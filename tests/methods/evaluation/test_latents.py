"""Measures of coefficients and eigenvalues that collapse."""

import pytest
import torch

from niso.methods.evaluation.latents import latent_metrics, mask_metrics, singular_values
from niso.methods.evaluation.pairs import evaluate_pairs
from tests.methods.evaluation.planted import POINTS, TRUTH, batches, make


def test_latents_are_judged_by_their_variation():
    same = torch.randn(1, 6, 5).expand(7, -1, -1)
    collapsed = latent_metrics(same)
    assert (collapsed["latent_common"], collapsed["invariants_common"]) == pytest.approx((1, 1))
    assert latent_metrics(1e-20 * same)["latent_common"] == pytest.approx(1)
    assert collapsed["latent_spread"] == pytest.approx(0, abs=1e-6)
    line = torch.linspace(1, 2, 7)[:, None, None] * torch.randn(7, 6, 1) @ torch.ones(1, 5)
    assert latent_metrics(line)["latent_rank"] == pytest.approx(1)
    various = latent_metrics(torch.randn(2_000, 6, 5))
    assert various["latent_common"] < 0.01 and various["latent_rank"] > 2.5
    assert 10 < various["invariants_rank"] < 15  # of the 15 entries of aᵀa, the 5 squares vary most


@pytest.mark.parametrize("varies", ["nothing", "rounding", "rotations"])
def test_what_is_left_by_rounding_has_no_directions(varies, dtype):
    """Invariants of one observation under many rotations are the same."""
    a = torch.randn(1, 16, 8, dtype=dtype).expand(200, -1, -1)
    changes = {
        "nothing": a,
        "rounding": a * (1 + 1e-7 * torch.randn(200, 16, 8, dtype=dtype)),
        "rotations": torch.linalg.qr(torch.randn(200, 16, 16, dtype=dtype)).Q @ a,
    }
    assert latent_metrics(changes[varies])["invariants_rank"] == 0
    assert latent_metrics(a * (1 + 1e-4 * torch.randn(200, 16, 8, dtype=dtype)))["invariants_rank"] > 5


def test_latents_of_a_few_directions_have_no_rank():
    assert "latent_rank" not in latent_metrics(torch.randn(5, 6, 3))
    assert not latent_metrics(torch.randn(5, 6, 3), invariants=False).keys() & {"invariants_common", "invariants_rank"}
    assert "latent_rank" in latent_metrics(torch.randn(5, 6, 4))
    assert latent_metrics(torch.randn(5, 6, 1))["invariants_rank"] == 1  # one channel: aᵀa / ‖aᵀa‖ is always 1
    rounding = 1 + 1e-8 * torch.randn(5, 1, 1, dtype=torch.float64)
    assert latent_metrics(torch.randn(1, 6, 1) * rounding)["invariants_rank"] == 0


def test_a_mask_is_judged_by_its_clusters():
    method = make()
    latents = evaluate_pairs(method, batches(3)).latents
    sizes = TRUTH.spaces.bincount()
    assert latents["clusters"] == len(sizes)
    assert latents["single_eigenvalues"] == (sizes == 1).sum().item() / POINTS
    others = ~torch.eye(POINTS, dtype=torch.bool)
    assert latents["mask_mean"] == pytest.approx(method.mask()[others].mean().item(), rel=1e-5)


def test_a_single_eigenvalue_has_no_other_to_be_like():
    method = make()
    method.mask = lambda: torch.ones(1, 1)
    assert mask_metrics(method) == {"clusters": 1}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_singular_values_of_coefficients(dtype):
    u, v = torch.linalg.qr(torch.randn(2, 7, 6, 6, dtype=dtype)).Q
    values = torch.tensor([2.0, 1.0, 0.5, 0.0, 0.0, 0.0], dtype=dtype)
    curve = singular_values(torch.arange(1, 8, dtype=dtype)[:, None, None] * (u * values @ v))
    assert curve["y"] == pytest.approx([1, 0.5, 0.25, 0, 0, 0], abs=1e-6)
    assert curve["x"] == [1, 2, 3, 4, 5, 6]
    assert curve["count"] == [7] * 6
    assert singular_values(torch.zeros(3, 4, 2, dtype=dtype))["y"] == [0, 0]


@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e3])
def test_what_is_said_of_latents_depends_on_their_size_as_it_should(scale, dtype):
    generator = torch.Generator().manual_seed(0)
    a, sizes = torch.randn(50, 6, 5, generator=generator, dtype=dtype), torch.rand(50, 1, 1, generator=generator) + 0.5
    found, scaled, uneven = latent_metrics(a), latent_metrics(scale * a), latent_metrics(sizes.to(dtype) * a)
    assert scaled.pop("latent_spread") == pytest.approx(scale * found.pop("latent_spread"), rel=1e-5)
    assert scaled == pytest.approx(found, rel=1e-4)
    assert uneven["invariants_rank"] == pytest.approx(found["invariants_rank"], rel=1e-4)


def test_latents_that_are_zero_have_no_rank_and_nothing_in_common():
    assert set(latent_metrics(torch.zeros(3, 6, 5)).values()) == {0}
