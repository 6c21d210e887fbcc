"""The adapter between latent images and latent functions."""

import pytest
import torch
from torch import nn

import niso


def test_on_grid_is_the_same_network():
    first, second = nn.Conv2d(2, 5, 3, padding=1), nn.Conv2d(5, 2, 3, padding=1)
    encoder, decoder = niso.on_grid(first, second, (4, 6))
    x = torch.randn(3, 2, 4, 6)
    z = encoder(x)
    assert z.shape == (3, 24, 5)
    torch.testing.assert_close(z[:, 7], first(x)[:, :, 1, 1])  # row by row: point 7 of rows of 6
    torch.testing.assert_close(decoder(z), second(first(x)))


def test_on_a_grid_of_volumes():
    first, second = nn.Conv3d(2, 5, 1), nn.Conv3d(5, 2, 1)
    encoder, decoder = niso.on_grid(first, second, (2, 4, 6))
    x = torch.randn(3, 2, 2, 4, 6)
    z = encoder(x)
    torch.testing.assert_close(z[:, 31], first(x)[:, :, 1, 1, 1])  # point 31 = 24 + 6 + 1
    torch.testing.assert_close(decoder(z), second(first(x)))
    with pytest.raises(ValueError, match="4 × 2 × 6, not 2 × 4 × 6"):
        encoder(x.transpose(2, 3))


def test_latents_of_another_size_are_refused():
    encoder, _ = niso.on_grid(nn.Identity(), nn.Identity(), (4, 6))
    with pytest.raises(ValueError, match="6 × 4, not 4 × 6"):
        encoder(torch.randn(1, 1, 6, 4))


def test_a_model_trains_on_a_grid():
    encoder, decoder = niso.on_grid(nn.Conv2d(1, 3, 1), nn.Conv2d(3, 1, 1), (5, 5))
    model = niso.NeuralIsometry(encoder, decoder, niso.LearnedSpectrum(25, 8))
    x = torch.randn(4, 1, 5, 5)
    model(x, x.roll(1, 2)).loss().backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in model.parameters())
