"""SpectralDropout: its law, and when it does nothing."""

import pytest
import torch

import niso


def test_dropout_keeps_a_prefix_with_the_stated_law():
    batch, rank = 40_000, 8
    keep = niso.SpectralDropout(0.5).keep(batch, rank, torch.device("cpu"))
    assert keep.shape == (batch, rank, 1)
    kept = keep.sum((1, 2))
    prefix = torch.arange(rank) < kept[:, None]
    assert torch.equal(keep[..., 0], prefix)  # always the first ones
    shares = torch.bincount(kept, minlength=rank + 1) / batch
    expected = torch.tensor([0.0] + [0.5 / (rank - 1)] * (rank - 1) + [0.5])  # 1 … rank − 1 uniformly, or all
    assert shares[0] == 0
    assert (shares - expected).abs().max() < 5 * (0.25 / batch) ** 0.5


def test_dropout_masks_values_and_scales_nothing():
    layer, a = niso.SpectralDropout(1.0), torch.randn(50, 5, 3)
    out = layer(a)
    gone = out == 0
    assert torch.equal(out[~gone], a[~gone])
    assert gone[:, -1].all() and not gone[:, 0].any()
    assert torch.equal(gone[..., 0], gone[..., 2])


def test_dropout_goes_by_the_rank_of_the_eigenvalues():
    """A cyclic order, which no double sorting forgives: the coefficient of the smallest eigenvalue is always kept."""
    layer, eigenvalues = niso.SpectralDropout(1.0), torch.tensor([2.0, 3.0, 0.0, 1.0, 0.5])
    kept = layer(torch.ones(200, 5, 1), eigenvalues)[..., 0]
    ascending = kept[:, [2, 4, 3, 0, 1]]
    assert (ascending.diff(dim=1) <= 0).all()
    assert sorted(set(ascending.sum(1).tolist())) == [1, 2, 3, 4]


@pytest.mark.parametrize("rank", [1, 2])
def test_dropout_never_drops_everything(rank):
    a = torch.ones(100, rank, 1)
    assert niso.SpectralDropout(1.0)(a).sum((1, 2)).tolist() == [1.0] * 100


def test_dropout_is_off_in_evaluation_and_at_probability_zero():
    a = torch.randn(20, 5, 3)
    assert torch.equal(niso.SpectralDropout(1.0).eval()(a), a)
    assert torch.equal(niso.SpectralDropout(0.0)(a), a)


@pytest.mark.parametrize("probability", [-0.1, 1.5])
def test_dropout_probability_is_checked(probability):
    with pytest.raises(ValueError, match="must lie in"):
        niso.SpectralDropout(probability)
