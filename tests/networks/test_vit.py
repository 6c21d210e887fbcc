import hypothesis.strategies as st
import pytest
import torch
from hypothesis import given, settings
from torch import nn

from niso.networks.vit import Attention, PatchEmbedding, TransformerBlock, ViTConfig, ViTDecoder, ViTEncoder
from niso.testing import assert_equivariant

SMALL = ViTConfig((8, 12), 3, patch=4, channels=12, blocks=2, heads=3, latent_channels=5)


def count(module: nn.Module) -> int:
    return sum(p.numel() for p in module.parameters())


@settings(max_examples=12, deadline=None)
@given(
    grid=st.tuples(st.integers(1, 3), st.integers(1, 3)),
    patch=st.integers(1, 4),
    image_channels=st.integers(1, 3),
    heads=st.integers(1, 3),
    blocks=st.integers(0, 2),
    latent=st.integers(1, 4),
    batch=st.integers(1, 3),
)
def test_shapes(grid, patch, image_channels, heads, blocks, latent, batch):
    size = (grid[0] * patch, grid[1] * patch)
    config = ViTConfig(size, image_channels, patch, 4 * heads, blocks, heads, latent)
    image = torch.randn(batch, image_channels, *size)
    z = ViTEncoder(config)(image)
    assert config.grid == grid and z.shape == (batch, config.points, latent)
    assert ViTDecoder(config)(z).shape == image.shape


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_every_gradient_is_finite_and_none_is_missing(dtype):
    encoder, decoder = ViTEncoder(SMALL).to(dtype), ViTDecoder(SMALL).to(dtype)
    image = torch.randn(2, 3, 8, 12, dtype=dtype)
    out = decoder(encoder(image))
    assert out.dtype == dtype
    (out - image).abs().mean().backward()
    for parameter in [*encoder.parameters(), *decoder.parameters()]:
        assert parameter.grad is not None and parameter.grad.isfinite().all()


def test_parameter_counts():
    config, width = ViTConfig(), 256
    block = 12 * width**2 + 13 * width  # 4 w² + 4 w for attention, 8 w² + 5 w for the MLP, 4 w for two norms
    assert count(TransformerBlock(width, 8)) == block
    tokens = 17 * width + 100 * width  # patches of 4 × 4 and a bias; 100 places
    assert count(ViTEncoder(config)) == tokens + 4 * block + 2 * width + 32 * (width + 1)
    assert count(ViTDecoder(config)) == 33 * width + 100 * width + 4 * block + 2 * width + 16 * (width + 1)


def test_weights_start_as_usual():
    config = ViTConfig(channels=64, blocks=1)
    for network in (ViTEncoder(config).layers, ViTDecoder(config).layers):
        weights = [layer.weight for layer in network.modules() if isinstance(layer, nn.Linear | nn.Conv2d)]
        assert all(weight.abs().max() <= 0.04 and 0.015 < weight.std() < 0.02 for weight in weights)


def test_attention_is_the_textbook_formula():
    torch.manual_seed(0)
    attention = Attention(6, 2).double()
    x = torch.randn(2, 5, 6, dtype=torch.float64)
    q, k, v = attention.query_key_value(x).chunk(3, -1)
    heads = []
    for part in (slice(0, 3), slice(3, 6)):
        weights = (q[..., part] @ k[..., part].mT / 3**0.5).softmax(-1)
        heads.append(weights @ v[..., part])
    torch.testing.assert_close(attention(x), attention.output(torch.cat(heads, -1)))


def test_blocks_commute_with_permutations_of_tokens():
    torch.manual_seed(0)
    block, order = TransformerBlock(8, 2).double(), torch.randperm(6)
    x = torch.randn(2, 6, 8, dtype=torch.float64)
    assert_equivariant(block, x, lambda x: x[:, order], lambda y: y[:, order], 1e-12)


def test_points_are_patches_row_by_row():
    """The embedding, and the decoder's pixels, of patch (1, 2) belong to point 1 · 3 + 2."""
    embedding, image = PatchEmbedding(SMALL), torch.zeros(1, 3, 8, 12)
    changed = image.clone()
    changed[:, :, 4:8, 8:12] = 1
    moved = (embedding(changed) - embedding(image)).abs().sum(-1)[0]
    assert moved.nonzero().flatten().tolist() == [5]

    config = ViTConfig((8, 12), 3, patch=4, channels=12, blocks=0, heads=3, latent_channels=5)
    decoder, z = ViTDecoder(config), torch.randn(1, 6, 5)
    other = z.clone()
    other[:, 5] += 1
    changed_pixels = (decoder(other) - decoder(z)).abs().sum((0, 1)) > 0
    expected = torch.zeros(8, 12, dtype=torch.bool)
    expected[4:8, 8:12] = True
    assert torch.equal(changed_pixels, expected)

    pixels = torch.arange(3.0 * 4 * 4)  # channel by channel, row by row
    nn.init.zeros_(decoder.layers[-1].weight)
    decoder.layers[-1].bias.data.copy_(pixels)
    assert torch.equal(decoder(z), pixels.reshape(1, 3, 4, 4).repeat(1, 1, 2, 3))


def test_examples_do_not_mix():
    encoder, image = ViTEncoder(SMALL).double(), torch.randn(3, 3, 8, 12, dtype=torch.float64)
    torch.testing.assert_close(encoder(image)[1:2], encoder(image[1:2]))


def test_autocast_stays_close():
    torch.manual_seed(0)
    encoder, decoder, image = ViTEncoder(SMALL), ViTDecoder(SMALL), torch.randn(2, 3, 8, 12)
    exact = decoder(encoder(image))
    with torch.autocast("cpu", torch.bfloat16):
        half = decoder(encoder(image))
    assert (half - exact).norm() < 0.05 * exact.norm()


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ({"image_size": (40, 41)}, "divisible by patch"),
        ({"image_size": (0, 40)}, "divisible by patch"),
        ({"channels": 30}, "divisible by heads"),
        ({"patch": 0}, "patch"),
        ({"blocks": -1}, "blocks"),
        ({"latent_channels": 0}, "latent_channels"),
    ],
)
def test_bad_configurations_are_named(bad, message):
    with pytest.raises(ValueError, match=message):
        ViTConfig(**bad)


def test_wrong_inputs_are_named():
    with pytest.raises(ValueError, match="takes images"):
        ViTEncoder(SMALL)(torch.zeros(1, 3, 8, 8))
    with pytest.raises(ValueError, match="takes 6 points"):
        ViTDecoder(SMALL)(torch.zeros(1, 5, 5))
