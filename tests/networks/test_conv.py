import math
from dataclasses import replace

import hypothesis.strategies as st
import pytest
import torch
from hypothesis import given, settings

import niso
from niso.networks import (
    ChannelNormSiLU,
    ConvConfig,
    ConvDecoder,
    ConvEncoder,
    InstanceNormSiLU,
    grid_to_points,
    points_to_grid,
)

SMALL = ConvConfig(image_size=(8, 12), image_channels=3, channels=(4, 6), blocks=1, latent_channels=5, stem_channels=3)


def count(*modules: torch.nn.Module) -> int:
    return sum(p.numel() for module in modules for p in module.parameters())


def test_released_homnist_model_has_its_published_parameter_count():
    config = ConvConfig()
    spectrum = niso.LearnedSpectrum(points=config.points, rank=32)
    assert (config.grid, config.points) == ((20, 20), 400)
    assert count(spectrum) == 400 + 400 * 32 + 32
    assert count(ConvEncoder(config), ConvDecoder(config), spectrum) == 2_186_385


@settings(max_examples=12, deadline=None)
@given(
    channels=st.lists(st.integers(1, 5), min_size=1, max_size=3),
    grid=st.tuples(st.integers(1, 3), st.integers(1, 3)),
    blocks=st.integers(1, 2),
    image_channels=st.integers(1, 3),
    latent=st.integers(1, 4),
    batch=st.integers(1, 3),
    patch=st.integers(1, 3),
)
def test_shapes(channels, grid, blocks, image_channels, latent, batch, patch):
    stride = patch * 2 ** (len(channels) - 1)
    size = (grid[0] * stride, grid[1] * stride)
    config = ConvConfig(size, image_channels, tuple(channels), blocks, latent, stem_channels=3, patch=patch)
    image = torch.randn(batch, image_channels, *size)
    assert config.grid == grid
    z = ConvEncoder(config)(image)
    assert z.shape == (batch, config.points, latent)
    assert ConvDecoder(config)(z).shape == image.shape


def test_patches_read_and_write_whole_squares():
    """A pixel reaches the stem's value of its own square only, and the decoder's last layer writes it back there."""
    config = ConvConfig(image_size=(4, 6), channels=(2,), blocks=1, stem_channels=3, patch=2)
    encoder, decoder = ConvEncoder(config), ConvDecoder(config)
    image, touched = torch.zeros(1, 1, 4, 6), torch.zeros(1, 1, 4, 6)
    touched[0, 0, 3, 4] = 1
    difference = (encoder.layers[:2](touched) - encoder.layers[:2](image)).abs().sum(1)[0]
    assert difference.nonzero().tolist() == [[1, 2]]
    squares = torch.zeros(1, 2, 2, 3)
    squares[0, :, 1, 2] = 1
    written = decoder.layers[-2:](squares) - decoder.layers[-2:](torch.zeros_like(squares))
    assert sorted(map(tuple, written[0, 0].nonzero().tolist())) == [(2, 4), (2, 5), (3, 4), (3, 5)]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("patch", [1, 2])
@pytest.mark.parametrize(("padding", "axes"), [("longitude", (-1,)), ("circular", (-2, -1))])
def test_images_that_go_round_have_latents_that_do(dtype, patch, padding, axes):
    """Rolled by whole latent points, images have latents that are rolled, and are decoded rolled."""
    around = ConvConfig((8, 12), 3, (4, 6), 2, 5, 3, patch, padding)
    image = torch.randn(2, 3, 8, 12, dtype=dtype)
    differences = []
    for config in (around, replace(around, padding="zeros")):
        encoder, decoder = ConvEncoder(config).to(dtype), ConvDecoder(config).to(dtype)
        stride, grid = config.stride, config.grid
        z, rolled = encoder(image), encoder(image.roll([stride] * len(axes), axes))
        expected = points_to_grid(z, grid).roll([1] * len(axes), axes)
        differences.append((points_to_grid(rolled, grid) - expected).abs().max() / z.abs().max())
        decoded = decoder(grid_to_points(expected)) - decoder(z).roll([stride] * len(axes), axes)
        differences.append(decoded.abs().max() / decoder(z).abs().max())
    assert max(differences[:2]) < (1e-5 if dtype == torch.float32 else 1e-13)
    assert min(differences[2:]) > 1e-3


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_every_gradient_is_finite(dtype):
    encoder, decoder = ConvEncoder(SMALL).to(dtype), ConvDecoder(SMALL).to(dtype)
    image = torch.randn(2, 3, 8, 12, dtype=dtype)
    out = decoder(encoder(image))
    assert out.dtype == dtype
    (out - image).abs().mean().backward()
    for parameter in [*encoder.parameters(), *decoder.parameters()]:
        assert parameter.grad is not None and parameter.grad.isfinite().all()


def test_gradients_of_a_constant_image_are_finite():
    encoder = ConvEncoder(SMALL)
    encoder(torch.zeros(1, 3, 8, 12)).sum().backward()
    assert all(p.grad.isfinite().all() for p in encoder.parameters())


def test_examples_do_not_mix():
    encoder, image = ConvEncoder(SMALL).double(), torch.randn(3, 3, 8, 12, dtype=torch.float64)
    torch.testing.assert_close(encoder(image)[1:2], encoder(image[1:2]))


def test_float32_agrees_with_float64():
    encoder, image = ConvEncoder(SMALL), torch.randn(2, 3, 8, 12)
    single = encoder(image).double()
    torch.testing.assert_close(single, encoder.double()(image.double()), atol=1e-4, rtol=1e-4)


def test_autocast_stays_close_and_trains():
    encoder, decoder, image = ConvEncoder(SMALL), ConvDecoder(SMALL), torch.randn(2, 3, 8, 12)
    exact = decoder(encoder(image))
    with torch.autocast("cpu", torch.bfloat16):
        half = decoder(encoder(image))
    assert half.dtype == torch.bfloat16
    assert (half - exact).norm() < 0.05 * exact.norm()
    half.float().square().mean().backward()
    assert all(p.grad.isfinite().all() for p in [*encoder.parameters(), *decoder.parameters()])


def test_initial_weights_are_lecun_normal():
    torch.manual_seed(0)
    block = ConvEncoder(ConvConfig(channels=(64,), blocks=2)).layers[3]
    for layer in (block.conv1, block.conv2, block.skip):
        fan_in = layer.weight[0].numel()
        assert math.isclose(layer.weight.std().item() * math.sqrt(fan_in), 1, rel_tol=0.03)
        assert layer.bias.eq(0).all()


def test_layout_stays_channels_last():
    block = ConvEncoder(ConvConfig(image_size=(8, 8), channels=(16,), blocks=1)).layers[2]
    for start in (torch.channels_last, torch.contiguous_format):
        x = torch.randn(2, 48, 8, 8).contiguous(memory_format=start)
        assert block(x).is_contiguous(memory_format=torch.channels_last)


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ({"image_size": (40, 41)}, "divisible by 2"),
        ({"image_size": (0, 40)}, "divisible by 2"),
        ({"channels": ()}, "channels"),
        ({"channels": (64, 0)}, "channels"),
        ({"image_size": (40, 42), "patch": 2}, r"divisible by 4 \(2 levels, patch 2\)"),
        ({"blocks": 0}, "blocks"),
        ({"patch": 0}, "patch"),
        ({"latent_channels": 0}, "latent_channels"),
    ],
)
def test_bad_configurations_are_named(bad, message):
    with pytest.raises(ValueError, match=message):
        ConvConfig(**bad)


def test_a_wrong_image_is_named():
    with pytest.raises(ValueError, match="takes images"):
        ConvEncoder(SMALL)(torch.zeros(1, 3, 8, 8))


def reference(norm: InstanceNormSiLU, x: torch.Tensor) -> torch.Tensor:
    y = torch.nn.functional.instance_norm(x, weight=norm.weight, bias=norm.bias, eps=norm.eps)
    return torch.nn.functional.silu(y)


@pytest.mark.parametrize("layout", [torch.channels_last, torch.contiguous_format])
@pytest.mark.parametrize("offset", [0.0, 100.0])
def test_norm_agrees_with_torch(layout, offset):
    torch.manual_seed(0)
    norm = InstanceNormSiLU(5).double()
    torch.nn.init.normal_(norm.weight)
    torch.nn.init.normal_(norm.bias)
    x = (torch.randn(3, 5, 6, 7, dtype=torch.float64) + offset).contiguous(memory_format=layout).requires_grad_()
    inputs = (x, norm.weight, norm.bias)
    y, expected = norm(x), reference(norm, x)
    upstream = torch.randn_like(expected)
    torch.testing.assert_close(y, expected)
    for mine, theirs in zip(
        torch.autograd.grad(y, inputs, upstream), torch.autograd.grad(expected, inputs, upstream), strict=True
    ):
        torch.testing.assert_close(mine, theirs, atol=1e-8, rtol=1e-6)


@pytest.mark.parametrize("space", [(7,), (2, 3, 4), (2, 1, 3, 4)])
def test_norm_of_signals_and_volumes_agrees_with_torch(space):
    norm = InstanceNormSiLU(3).double()
    torch.nn.init.normal_(norm.weight)
    x = torch.randn(2, 3, *space, dtype=torch.float64, requires_grad=True)
    y, expected = norm(x), reference(norm, x.flatten(2)).reshape(x.shape)
    torch.testing.assert_close(y, expected)
    gradients = [torch.autograd.grad(out.square().sum(), (x, norm.weight)) for out in (y, expected)]
    torch.testing.assert_close(*gradients)


@pytest.mark.parametrize("half", [torch.bfloat16, torch.float16])
def test_inputs_in_half_precision_are_normalised_in_float32(half):
    norm, x = InstanceNormSiLU(5), (torch.randn(3, 5, 6, 7) + 100).to(half)
    y = norm(x)
    assert y.dtype == half
    torch.testing.assert_close(y.float(), norm(x.float()), rtol=1e-2, atol=1e-3)


def test_norm_gradcheck():
    torch.manual_seed(0)
    norm = InstanceNormSiLU(2).double()
    x = torch.randn(2, 2, 3, 3, dtype=torch.float64, requires_grad=True)

    def apply(x, weight, bias):
        return torch.func.functional_call(norm, {"weight": weight, "bias": bias}, x)

    assert torch.autograd.gradcheck(apply, (x, norm.weight, norm.bias))


def test_channels_normalised_at_each_point_are_a_layer_norm(dtype):
    norm, x = ChannelNormSiLU(5).to(dtype), torch.randn(2, 5, 3, 4, dtype=dtype)
    expected = torch.nn.functional.silu(torch.nn.functional.layer_norm(x.movedim(1, -1), (5,), eps=norm.eps))
    torch.testing.assert_close(norm(x), expected.movedim(-1, 1))
    torch.testing.assert_close(norm(x[..., 0]), norm(x)[..., 0])  # signals, too


def test_normalised_channels_keep_colours_and_normalised_space_does_not():
    colours = torch.tensor([[-1.0, 0.5, 0.0], [0.8, -0.3, 0.2]])[..., None, None].expand(-1, -1, 8, 12)
    assert InstanceNormSiLU(3)(colours).abs().max() < 1e-3
    first, second = ChannelNormSiLU(3)(colours)
    assert (first - second).abs().max() > 0.5
    config = replace(SMALL, normalised="channels")
    assert ConvDecoder(config)(ConvEncoder(config)(colours)).shape == colours.shape
