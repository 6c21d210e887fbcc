"""One-dimensional convolutions: shapes, what is normalised, and what does not fit."""

import pytest
import torch

from niso.networks.signals import SignalConfig, SignalDecoder, SignalEncoder


@pytest.mark.parametrize("normalised", ["space", "channels"])
def test_signals_become_latents_and_signals_again(normalised):
    config = SignalConfig(
        length=24, signal_channels=2, channels=(4, 6), blocks=1, latent_channels=5, patch=3, normalised=normalised
    )
    x = torch.randn(3, 24, 2)
    z = SignalEncoder(config)(x)
    assert z.shape == (3, 4, 5) and config.points == 4
    assert SignalDecoder(config)(z).shape == x.shape
    with pytest.raises(ValueError, match="takes signals"):
        SignalEncoder(config)(x[:, 1:])
    with pytest.raises(ValueError, match="takes 4 points"):
        SignalDecoder(config)(z[:, 1:])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_signals_that_go_round_have_latents_that_do(dtype):
    differences = []
    for padding in ("circular", "zeros"):
        config = SignalConfig((4, 6), 1, 5, patch=3, padding=padding, length=24, signal_channels=2)
        encoder, decoder = SignalEncoder(config).to(dtype), SignalDecoder(config).to(dtype)
        x = torch.randn(3, 24, 2, dtype=dtype)
        z = encoder(x)
        differences += [
            (encoder(x.roll(config.stride, 1)) - z.roll(1, 1)).abs().max() / z.abs().max(),
            (decoder(z.roll(1, 1)) - decoder(z).roll(config.stride, 1)).abs().max() / decoder(z).abs().max(),
        ]
    assert max(differences[:2]) < (1e-5 if dtype == torch.float32 else 1e-13)
    assert min(differences[2:]) > 1e-3


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"kernel": 4}, "odd"),
        ({"length": 25}, "stride"),
        ({"channels": ()}, "width"),
        ({"padding": "longitude"}, "only images"),
        ({"padding": "circular", "length": 4, "kernel": 7}, "more than once"),
    ],
)
def test_what_does_not_fit_is_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        SignalConfig(**settings)
