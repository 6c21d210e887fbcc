"""Nearest-neighbour unpooling, and its gradient where networks are compiled."""

import pytest
import torch
from torch import nn

from niso.networks import ConvConfig, ConvDecoder
from niso.networks.levels import LevelsConfig, LevelsDecoder
from niso.networks.unpool import Unpool


@pytest.mark.parametrize("shape", [(2, 3, 4, 5), (1, 2, 1, 1), (2, 3, 7), (2, 3, 2, 4, 3)])
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
    for shape in ((2, 2, 3, 2), (2, 2, 3), (1, 2, 2, 1, 3)):
        x = torch.randn(shape, dtype=torch.float64, requires_grad=True)
        assert torch.autograd.gradcheck(unpool, x) and torch.autograd.gradgradcheck(unpool, x)
    torch.testing.assert_close(torch.func.vmap(unpool)(x[None]), unpool(x)[None])


def test_channels_stay_last():
    x = torch.randn(2, 8, 4, 4).to(memory_format=torch.channels_last)
    assert Unpool()(x).is_contiguous(memory_format=torch.channels_last)


@pytest.mark.parametrize("decoder", [ConvDecoder(ConvConfig()), LevelsDecoder(LevelsConfig())])
def test_decoders_unpool_by_it(decoder):
    """Torch's own loses gradients of compiled decoders in half precision (torch 2.13): they would train uncompiled."""
    kinds = {type(module) for module in decoder.modules()}
    assert Unpool in kinds and nn.Upsample not in kinds
