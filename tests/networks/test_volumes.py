"""Three-dimensional convolutions: shapes, volumes that go round, and what does not fit."""

import pytest
import torch

from niso.networks import points_to_grid
from niso.networks.volumes import VolumeConfig, VolumeDecoder, VolumeEncoder

CONFIG = VolumeConfig(
    channels=(4, 6), blocks=1, latent_channels=5, patch=2, normalised="channels", size=(8, 12, 4), volume_channels=2
)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("normalised", ["space", "channels"])
def test_volumes_become_latents_and_volumes_again(dtype, normalised):
    config = VolumeConfig(**{**vars(CONFIG), "normalised": normalised})
    encoder, decoder = VolumeEncoder(config).to(dtype), VolumeDecoder(config).to(dtype)
    x = torch.randn(3, 2, 8, 12, 4, dtype=dtype)
    z = encoder(x)
    assert z.shape == (3, 6, 5) and config.grid == (2, 3, 1)
    back = decoder(z)
    assert back.shape == x.shape and back.dtype == dtype
    back.square().sum().backward()
    assert all(p.grad.isfinite().all() for net in (encoder, decoder) for p in net.parameters())
    with pytest.raises(ValueError, match="takes volumes"):
        encoder(x[:, :, 1:])
    with pytest.raises(ValueError, match="5 points do not fill a grid of 2 × 3 × 1"):
        decoder(z[:, 1:])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_volumes_that_go_round_have_latents_that_do(dtype):
    differences = []
    for padding in ("circular", "zeros"):
        config = VolumeConfig(**{**vars(CONFIG), "padding": padding})
        encoder = VolumeEncoder(config).to(dtype)
        x = torch.randn(2, 2, 8, 12, 4, dtype=dtype)
        z, rolled = (points_to_grid(encoder(v), config.grid) for v in (x, x.roll((4, 8), (2, 3))))
        differences.append((rolled - z.roll((1, 2), (2, 3))).abs().max() / z.abs().max())
    assert differences[0] < (1e-5 if dtype == torch.float32 else 1e-13) and differences[1] > 1e-3


@pytest.mark.parametrize(
    ("settings", "message"),
    [({"size": (8, 9, 8)}, "stride"), ({"kernel": 4}, "odd"), ({"padding": "longitude"}, "only images")],
)
def test_what_does_not_fit_is_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        VolumeConfig(**settings)
