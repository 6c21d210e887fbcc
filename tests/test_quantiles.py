"""The quantiles by which studies compare signatures: both studies of shapes take these."""

import pytest
import torch

from studies.quantiles import LEVELS, quantiles

HALF = torch.tensor([0.5], dtype=torch.float64)


def test_equal_weights_have_the_median_in_the_middle():
    values = torch.arange(10, dtype=torch.float64).flip(0)[:, None]
    assert quantiles(values, torch.full((10, 1), 3.0, dtype=torch.float64), HALF).tolist() == [[4.5]]


def test_both_ends_count_alike():
    """Quantiles of −f are those of f from the other end, whatever the weights."""
    f, weights = torch.rand(2, 40, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(quantiles(-f, weights), -quantiles(f, weights).flip(1))


def test_a_heavy_point_draws_the_median():
    """Below its middle there are 7 + 15 of 39, and half of 39 is 19.5: nearer to it than to the point before."""
    weights = torch.ones(10, 1, dtype=torch.float64)
    weights[7] = 30
    values = torch.arange(10, dtype=torch.float64)[:, None]
    assert quantiles(values, weights, HALF).item() == pytest.approx(6 + (19.5 - 6.5) / (22 - 6.5))


def test_weights_of_points_are_those_of_all_channels():
    f, weights = torch.rand(2, 40, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    assert torch.equal(quantiles(f, weights[:, :1]), quantiles(f, weights[:, :1].repeat(1, 3)))
    assert quantiles(f, weights).shape == (3, len(LEVELS))
