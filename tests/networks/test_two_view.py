"""The transformer on two views: order, independence of a batch's pairs, sizes."""

import pytest
import torch

from niso.networks.two_view import TwoViewConfig, TwoViewDecoder, TwoViewTransformer

TINY = TwoViewConfig(patch=4, channels=8, heads=2, encoder_blocks=1, decoder_blocks=2)


@pytest.fixture
def network(dtype: torch.dtype) -> TwoViewTransformer:
    network = TwoViewTransformer(TINY, (8, 12), 9).to(dtype)
    with torch.no_grad():
        for parameter in network.parameters():  # the usual start is so small that nothing would be seen
            parameter.add_(0.3 * torch.randn_like(parameter))
    return network


def test_a_pair_gives_numbers_of_its_own(network, dtype, tolerance):
    first, second = torch.randn(2, 3, 3, 8, 12, dtype=dtype)
    numbers = network(first, second)
    assert numbers.shape == (3, 9) and numbers.dtype == dtype
    alone = torch.cat([network(first[place : place + 1], second[place : place + 1]) for place in range(3)])
    torch.testing.assert_close(numbers, alone, atol=10 * tolerance, rtol=0)


def test_the_order_of_the_views_matters(network, dtype):
    first, second = torch.randn(2, 1, 3, 8, 12, dtype=dtype)
    assert (network(first, second) - network(second, first)).abs().max() > 1e-3


def test_both_views_and_all_parameters_count(network, dtype):
    first, second = torch.randn(2, 2, 3, 8, 12, dtype=dtype, requires_grad=True)
    views = [first.detach().requires_grad_(), second.detach().requires_grad_()]
    network(*views).square().sum().backward()
    assert all(view.grad.abs().amin((0, 1)).max() > 0 for view in views)
    assert all(parameter.grad is not None and parameter.grad.any() for parameter in network.parameters())


def test_tokens_of_another_width_are_taken_to_the_decoders(dtype):
    decoder = TwoViewDecoder(8, 1, 2, outputs=5, inputs=6).to(dtype)
    assert decoder(*torch.randn(2, 4, 7, 6, dtype=dtype)).shape == (4, 5)


def test_the_defaults_are_the_papers():
    config = TwoViewConfig()
    assert (config.patch, config.channels, config.heads, config.encoder_blocks, config.decoder_blocks) == (
        16,
        512,
        16,
        12,
        12,
    )
    assert config.view((144, 144)).points == 81


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ({"patch": 0}, "patch must be positive"),
        ({"channels": 10}, "must be divisible by heads"),
        ({"encoder_blocks": -1}, "blocks must not be negative"),
        ({"decoder_blocks": 0}, "decoder_blocks must be positive"),
    ],
)
def test_bad_configurations_are_named(bad, message):
    with pytest.raises(ValueError, match=message):
        TwoViewConfig(**bad)
    with pytest.raises(ValueError, match="divisible by patch"):
        TwoViewTransformer(TINY, (8, 10), 9)
