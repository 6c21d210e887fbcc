import pytest
import torch
from torch import nn

from niso.methods.autoencoder import Autoencoder, AutoencoderObjective
from niso.networks import ConvConfig, ConvDecoder, ConvEncoder

SMALL = ConvConfig(image_size=(8, 8), channels=(4, 6), blocks=1, latent_channels=5, stem_channels=3)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_every_gradient_is_finite(dtype):
    objective = AutoencoderObjective(Autoencoder(ConvEncoder(SMALL), ConvDecoder(SMALL))).to(dtype)
    terms = objective((torch.randn(2, 1, 8, 8, dtype=dtype),), 0.0)
    assert terms["loss"].dtype == dtype
    terms["loss"].backward()
    assert all(p.grad.isfinite().all() for p in objective.parameters())


def test_every_view_is_reconstructed():
    x, tx = torch.randn(2, 3, 4, 5, dtype=torch.float64)
    model = Autoencoder(nn.Linear(5, 2).double(), nn.Linear(2, 5).double())
    objective = AutoencoderObjective(model)
    one, other, both = objective((x,), 0.0), objective((tx,), 0.0), objective((x, tx), 0.0)
    torch.testing.assert_close(both["loss"], (one["loss"] + other["loss"]) / 2)
    torch.testing.assert_close(one["reconstruction"], (model(x) - x).abs().mean())


def test_encode_gives_the_whole_latent():
    model = Autoencoder(ConvEncoder(SMALL), ConvDecoder(SMALL))
    x = torch.randn(2, 1, 8, 8)
    assert model.encode(x).shape == (2, 16, 5)
    torch.testing.assert_close(model.decode(model.encode(x)), model(x))


def test_an_identity_has_no_loss():
    objective = AutoencoderObjective(Autoencoder(nn.Identity(), nn.Identity()))
    assert objective((torch.randn(2, 4, 3),), 0.5)["loss"] == 0


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_latents_are_decoded_in_the_precision_of_the_decoder(dtype):
    model = Autoencoder(nn.Identity(), nn.Linear(3, 2).to(dtype))
    assert model.decode(torch.randn(4, 5, 3)).dtype == dtype
