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


@pytest.mark.parametrize(
    ("settings", "message"),
    [({"kernel": 4}, "odd"), ({"length": 25}, "stride"), ({"channels": ()}, "width")],
)
def test_what_does_not_fit_is_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        SignalConfig(**settings)
