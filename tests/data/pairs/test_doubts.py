"""What makes values doubtful is said where it is so, and of nothing else. Other doubts: `test_table.py`."""

import numpy as np
import pytest
import torch

from niso.data.pairs.doubts import faint_ones
from niso.data.pairs.reading import Reading
from niso.data.pairs.sampling.choose import pair_data
from niso.data.pairs.scaling import bounds_of, scaling_of
from niso.data.pairs.table import make_table

N = 200
SHAPES = {"signals": (32,), "channels": (32, 2), "images": (1, 8, 8), "volumes": (1, 6, 6, 6), "points": (20, 2)}


def normal(*shape):
    return np.random.default_rng(0).standard_normal((N, *shape))


def said(x, kind="auto"):
    table, rows = make_table("DATA", {"x": x}, Reading(kind=kind)), np.arange(len(x))
    scaling = scaling_of(table, rows)
    return faint_ones(table, bounds_of(table, scaling), rows, scaling)


def doubts(x):
    table = make_table("DATA", {"x": x, "tx": np.roll(x, 1, 1)}, Reading())
    return pair_data(table, Reading(), 0.1, 0.1, torch.device("cpu"))


def decades(*shape, least=-8.0, most=8.0):
    powers = np.random.default_rng(1).uniform(least, most, N)
    return normal(*shape) * 10 ** powers.reshape(-1, *[1] * len(shape))


@pytest.mark.parametrize("kind", SHAPES)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_amplitudes_of_many_decades_are_said(kind, dtype):
    x = decades(*SHAPES[kind]).astype(dtype)
    told = said(x, "signals" if kind == "channels" else kind)
    where = " in channel 0" if kind in ("channels", "points") else ""
    assert f"% of the observations vary{where} by less than a thousandth of what all do, and are nearly one " in told
    assert told.endswith("to the model: standardise each") and 60 <= int(told.split()[0]) <= 85


def test_their_share_is_that_of_the_observations_that_vary_by_less_than_a_thousandth():
    x = np.where(np.arange(N)[:, None] < 0.3 * N, 1e-5, 1.0) * normal(32)
    assert said(x).startswith("30 % of the observations vary by less")
    assert said(np.stack([normal(32), x], -1)).startswith("30 % of the observations vary in channel 1 by less")
    few = np.where(np.arange(N)[:, None] < 0.04 * N, 1e-5, 1.0) * normal(32)
    assert not said(few) and not said(np.where(np.arange(N)[:, None] < 0.3 * N, 1e-2, 1.0) * normal(32))


def test_logarithms_are_advised_where_they_help():
    assert said(abs(decades(32)) + 1e-12).endswith("standardise each, or take logarithms")
    assert said(100 + decades(32, least=-7, most=1).clip(-90)).endswith("standardise each")
    levels = np.random.default_rng(1).uniform(200, 300, (N, 1))
    assert said(levels + 1e-3 * normal(32)).endswith("standardise each")


BLANK = (np.arange(N) < 0.5 * N)[:, None, None, None]
FINE = {
    "pictures in bytes": np.where(BLANK, 0, np.arange(N * 64).reshape(N, 1, 8, 8) % 256).astype(np.uint8),
    "faint pictures in bytes": np.where(BLANK, abs(normal(1, 8, 8)).astype(int) % 2, 255).astype(np.uint8),
    "sparse pictures": np.where(BLANK, 0.0, abs(normal(1, 8, 8)) > 1.5),
    "masks of one pixel": (np.arange(N * 4096).reshape(N, 1, 64, 64) % 4097 == 0).astype(np.uint8) * 31,
    "one bright pixel in many": np.where(np.arange(N * 4096).reshape(N, 1, 64, 64) % 4097 == 0, 0.05, 0.0)
    + (np.arange(N) == 0)[:, None, None, None],
    "blank pictures of another level": np.where(BLANK, 7.0, normal(1, 8, 8)),
    "blank pictures but for rounding": np.where(BLANK, 1e-16, 1.0) * normal(1, 8, 8),
    "a constant channel": np.stack([normal(32), np.full((N, 32), 300.0)], -1),
    "a constant channel but for rounding": np.stack([normal(32), 300.0 + 1e-13 * normal(32)], -1),
    "a constant channel of images": np.stack([normal(8, 8), np.full((N, 8, 8), 300.0)], 1),
    "a constant": np.full((N, 32), 3.0),
    "a large offset": 1e6 + 1e-3 * normal(32),
    "a large offset of images": 1e6 + 1e-3 * normal(1, 8, 8),
    "signals of channels with other units": np.stack([1e-6 * normal(32), 1e6 * normal(32)], -1),
    "images of channels with other units": np.stack([1e-6 * normal(8, 8), 1e6 * normal(8, 8)], 1),
    "values of heavy tails": np.random.default_rng(0).standard_t(3, (N, 32)),
    "log-normal amplitudes": normal(32) * np.exp(normal(1)),
}


@pytest.mark.parametrize("x", FINE.values(), ids=FINE)
def test_nothing_is_said_of_data_that_scaling_suits(x):
    assert not said(x)


def test_a_doubt_is_said_once():
    """What makes the scale so large that others are faint is said by itself."""
    x = normal(32)
    x[7, 3] = 1e9
    data = doubts(x)
    assert "a few far off" in data.doubts["extreme values"] and "faint observations" not in data.doubts
    x[7] = 1e9 * normal(32)[0]
    data = doubts(x)
    assert "row 7 of x" in data.doubts["a value far off"] and "faint observations" not in data.doubts
    data = doubts(decades(32))
    assert list(data.doubts) == ["faint observations"] and data.doubts["faint observations"] in data.note
