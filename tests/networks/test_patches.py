"""Squares of pixels as channels: what torch has, in another layout."""

import pytest
import torch

from niso.networks.patches import FromPatches, ToPatches


@pytest.mark.parametrize("memory", [torch.contiguous_format, torch.channels_last])
def test_patches_are_those_of_torch(memory):
    x = torch.randn(2, 5, 6, 9).to(memory_format=memory)
    patches = ToPatches(3)(x)
    assert torch.equal(patches, torch.nn.functional.pixel_unshuffle(x, 3))
    assert patches.is_contiguous(memory_format=torch.channels_last)
    assert torch.equal(FromPatches(3)(patches), x)
