"""Whether anything relates the views of a pair."""

from unittest.mock import Mock

import pytest
import torch

from niso import isometric_map
from niso.experiments.pairs.discrimination import LEAST, MOST, discrimination
from niso.methods.method import Method


def identity() -> Method:
    """A method whose coefficients are the observations, with maps of distinct eigenvalues."""

    def solve(a, b):
        return isometric_map(a, b, torch.arange(8, dtype=a.dtype))

    return Mock(spec=Method, encode=lambda x: x, solve=solve)


def views(count, related, dtype=torch.float32):
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(count, 8, 3, generator=generator, dtype=dtype)
    signs = torch.randint(2, (count, 8, 1), generator=generator) * 2 - 1
    tx = x * signs  # isometries that commute with any diagonal operator
    return x, tx if related else tx[torch.randperm(count, generator=generator)]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_related_views_are_told_from_strangers(dtype):
    assert discrimination(identity(), [views(40, True, dtype)]) > 0.99


def test_unrelated_views_are_not():
    assert abs(discrimination(identity(), [views(400, False)]) - 0.5) < 0.05


def test_half_of_the_pairs_are_half_of_the_way():
    x, tx = views(400, True)
    tx[::2] = views(200, False)[1]
    assert abs(discrimination(identity(), [(x, tx)]) - 0.75) < 0.05


def test_copies_are_no_strangers():
    x, tx = views(30, True)
    assert discrimination(identity(), [(x.repeat_interleave(3, 0), tx.repeat_interleave(3, 0))]) > 0.99
    same = torch.ones(30, 8, 3)
    assert discrimination(identity(), [(same, same)]) is None


def test_blank_observations_are_not_compared():
    """Any map fits them."""
    x, tx = views(40, True)
    x[::3] = tx[::3] = 0
    assert discrimination(identity(), [(x, tx)]) > 0.99


def test_batches_are_joined_and_thinned():
    x, tx = views(2 * MOST, True)
    parts = [(x[:7], tx[:7], x[:7], tx[:7]), (x[7:], tx[7:])]
    assert discrimination(identity(), parts) == discrimination(identity(), [(x[::2], tx[::2])])


@pytest.mark.parametrize("count", [1, 2, 3])
def test_too_few_to_say(count):
    x, tx = views(count, True)
    assert count * (count - 1) < LEAST and discrimination(identity(), [(x, tx)]) is None
