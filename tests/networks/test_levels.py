"""Convolutions along one axis and three: shapes, observations that go round, and what does not fit."""

from dataclasses import replace

import pytest
import torch

from niso.networks import grid_to_points, points_to_grid
from niso.networks.levels import LevelsConfig, LevelsDecoder, LevelsEncoder

SIGNALS = LevelsConfig((24,), 2, (4, 6), 1, 5, patch=3)
VOLUMES = LevelsConfig((8, 12, 4), 2, (4, 6), 1, 5, patch=2, kernel=3)
DTYPES = pytest.mark.parametrize("dtype", [torch.float32, torch.float64])


@DTYPES
@pytest.mark.parametrize("normalised", ["space", "channels"])
@pytest.mark.parametrize(
    ("config", "shape", "grid"),
    [(SIGNALS, (24, 2), (4,)), (VOLUMES, (2, 8, 12, 4), (2, 3, 1))],
    ids=["signals", "volumes"],
)
def test_observations_become_latents_and_observations_again(config, shape, grid, normalised, dtype):
    config = replace(config, normalised=normalised)
    encoder, decoder = LevelsEncoder(config).to(dtype), LevelsDecoder(config).to(dtype)
    x = torch.randn(3, *shape, dtype=dtype)
    z = encoder(x)
    points = torch.Size(grid).numel()
    assert z.shape == (3, points, 5) and config.grid == grid
    back = decoder(z)
    assert back.shape == x.shape and back.dtype == dtype
    back.square().sum().backward()
    assert all(p.grad.isfinite().all() for net in (encoder, decoder) for p in net.parameters())
    with pytest.raises(ValueError, match=f"takes {config.kind} "):
        encoder(x.narrow(-2, 1, shape[-2] - 1))
    with pytest.raises(ValueError, match=f"{points - 1} points do not fill a grid of {' × '.join(map(str, grid))}"):
        decoder(z[:, 1:])


@DTYPES
@pytest.mark.parametrize(
    ("config", "axes", "steps"), [(SIGNALS, (1,), (1,)), (VOLUMES, (2, 3), (1, 2))], ids=["signals", "volumes"]
)
def test_observations_that_go_round_have_latents_that_do(config, axes, steps, dtype):
    differences = []
    for padding in ("circular", "zeros"):
        config = replace(config, padding=padding)
        encoder, decoder = LevelsEncoder(config).to(dtype), LevelsDecoder(config).to(dtype)
        x = torch.randn(2, *config.shape, dtype=dtype)

        def moved(x, config=config):
            return x.roll([config.stride * step for step in steps], axes)

        def turned(z, config=config):
            return grid_to_points(points_to_grid(z, config.grid).roll(steps, tuple(range(2, 2 + len(steps)))))

        z = encoder(x)
        back = decoder(z)
        differences += [
            (encoder(moved(x)) - turned(z)).abs().max() / z.abs().max(),
            (decoder(turned(z)) - moved(back)).abs().max() / back.abs().max(),
        ]
    assert max(differences[:2]) < (1e-5 if dtype == torch.float32 else 1e-13)
    assert min(differences[2:]) > 1e-3


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"kernel": 4}, "odd"),
        ({"size": (25,)}, "signals of 25 samples cannot be divided by the stride"),
        ({"size": (8, 9, 8)}, "volumes of 8 × 9 × 8 samples cannot be divided by the stride"),
        ({"size": (8, 8)}, "one number, of signals, or three"),
        ({"channels": ()}, "width"),
        ({"padding": "longitude"}, "only images"),
        ({"padding": "circular", "size": (4,), "kernel": 7}, "more than once"),
    ],
)
def test_what_does_not_fit_is_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        LevelsConfig(**settings)
