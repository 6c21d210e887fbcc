"""Nearest-neighbour unpooling, and its gradient where networks are compiled."""

import shutil

import pytest
import torch
from torch import nn

from niso.networks.unpool import Unpool


@pytest.mark.parametrize("shape", [(2, 3, 4, 5), (1, 2, 1, 1), (2, 3, 7)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_it_is_torchs(shape, dtype):
    x, y = (torch.randn(shape, dtype=dtype).requires_grad_() for _ in range(2))
    with torch.no_grad():
        y.copy_(x)
    ours, torchs = Unpool()(x), nn.Upsample(scale_factor=2, mode="nearest")(y)
    assert torch.equal(ours, torchs)
    weights = torch.randn_like(ours)
    for unpooled in (ours, torchs):
        (unpooled * weights).sum().backward()
    torch.testing.assert_close(x.grad, y.grad)


def test_gradients():
    unpool = Unpool()
    for shape in ((2, 2, 3, 2), (2, 2, 3)):
        x = torch.randn(shape, dtype=torch.float64, requires_grad=True)
        assert torch.autograd.gradcheck(unpool, x) and torch.autograd.gradgradcheck(unpool, x)
    torch.testing.assert_close(torch.func.vmap(unpool)(x[None]), unpool(x)[None])


def test_channels_stay_last():
    x = torch.randn(2, 8, 4, 4).to(memory_format=torch.channels_last)
    assert Unpool()(x).is_contiguous(memory_format=torch.channels_last)


COMPILED = """
import torch
from torch import nn
from niso.networks import ConvConfig, ConvDecoder
from niso.training.compilation import compile_networks, wrong_gradient

def step(exact):
    with torch.autocast("cpu", torch.bfloat16, enabled=not exact):
        images = objective["decoder"](latents)
    images.float().square().mean().backward()

config = ConvConfig((20, 20), channels=(16, 32), blocks=1, latent_channels=16, stem_channels=16, patch=1)
objective, latents = nn.ModuleDict({"decoder": ConvDecoder(config)}), torch.randn(4, 100, 16)
compile_networks(objective)
print(wrong_gradient(objective, step) or "right")
"""


@pytest.mark.skipif(shutil.which("c++") is None, reason="torch.compile needs a C++ compiler")
def test_compiled_decoders_learn_in_half_precision(outside):
    """With torch's own unpooling, what lies before it gets no gradient (torch 2.13)."""
    assert outside(COMPILED).strip() == "right"
