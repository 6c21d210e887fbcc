"""Invariants of coefficients; the heads that are made of them have tests of their own."""

import torch

from niso.networks.invariants import inner_products


def test_inner_products_are_the_upper_triangle():
    x = torch.randn(2, 5, 3, dtype=torch.float64)
    g = x.mT @ x
    expected = torch.stack([g[:, 0, 0], g[:, 0, 1], g[:, 0, 2], g[:, 1, 1], g[:, 1, 2], g[:, 2, 2]], -1)
    torch.testing.assert_close(inner_products(x), expected)
