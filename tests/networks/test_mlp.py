import hypothesis.strategies as st
import pytest
import torch
from hypothesis import given, settings

from niso.networks.mlp import MLP, MLPConfig


@settings(max_examples=15, deadline=None)
@given(
    shape=st.lists(st.integers(1, 4), min_size=1, max_size=3),
    layers=st.integers(0, 3),
    channels=st.integers(1, 6),
    outputs=st.integers(1, 4),
    batch=st.integers(1, 3),
)
def test_everything_but_the_batch_is_flattened(shape, layers, channels, outputs, batch):
    x = torch.randn(batch, *shape)
    mlp = MLP(x[0].numel(), outputs, MLPConfig(layers, channels))
    assert mlp(x).shape == (batch, outputs)
    torch.testing.assert_close(mlp(x), mlp(x.flatten(1)))


def test_parameter_counts_of_the_autoencoder_and_pose_heads():
    def count(module):
        return sum(p.numel() for p in module.parameters())

    assert count(MLP(400 * 32, 10)) == (12_800 + 1) * 128 + 129 * 128 + 129 * 10
    assert count(MLP(32 * 32, 9, MLPConfig(5, 512))) == 1025 * 512 + 4 * 513 * 512 + 513 * 9


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_gradients_are_finite(dtype):
    mlp = MLP(6, 3).to(dtype)
    out = mlp(torch.randn(2, 2, 3, dtype=dtype))
    assert out.dtype == dtype
    out.sum().backward()
    assert all(p.grad.isfinite().all() for p in mlp.parameters())


def test_without_layers_it_is_linear():
    mlp = MLP(4, 2, MLPConfig(layers=0)).double()
    x, y = torch.randn(2, 3, 4, dtype=torch.float64)
    torch.testing.assert_close(mlp(x) + mlp(y), mlp(x + y) + mlp(torch.zeros_like(x)))


def test_bad_sizes_are_named():
    with pytest.raises(ValueError, match="layers"):
        MLPConfig(layers=-1)
    with pytest.raises(ValueError, match="channels"):
        MLPConfig(channels=0)
    with pytest.raises(ValueError, match="at least one input"):
        MLP(0, 2)
