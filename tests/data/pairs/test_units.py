"""Observations in other units than those that a model was trained on are told, channel by channel."""

import numpy as np
import pytest
import torch

from niso.data.pairs.reading import Reading
from niso.data.pairs.scaling import BYTES, Scaling, bounds_of, ranges_of, scaling_of
from niso.data.pairs.table import make_table
from niso.data.pairs.units import LOST, PIXELS, Units

RANDOM = np.random.default_rng(0)
VARYING = RANDOM.normal(500, 300, (40, 4, 4))
SMALL = VARYING / 1000
"""Beside VARYING, so that each channel has a scale of its own."""


def images(*channels):
    return np.stack(np.broadcast_arrays(*channels), 1)


def units_of(x, tx=None):
    """Those of a model that is trained on these images."""
    table = make_table("DATA", {"x": x, "tx": x if tx is None else tx}, Reading(kind="images"))
    scaling = scaling_of(table, np.arange(len(x)))
    ranges = ranges_of(bounds_of(table, scaling))
    facts = {"kind": "images", "shape": table.shape, "scaling": scaling._asdict(), "ranges": ranges}
    return Units.of({**facts, "range": (min(ranges[0]), max(ranges[1]))}, hidden=False)


def check(units, x):
    for given in (x, torch.from_numpy(x)):
        units.check(given, given)


def test_a_channel_of_a_scale_of_one_is_not_taken_for_constant():
    """As those between −1 and 1, beside wider ones, are scaled."""
    index = np.cos(np.arange(40 * 16)).reshape(40, 4, 4)
    index[0, 0, :2] = -1, 1
    units = units_of(x := images(VARYING, index))
    assert units.scaling.scale[1] == 1.0 and units.constant == (False, False)
    check(units, x)
    with pytest.raises(ValueError, match=r"channel 1 of the observations .* between -1 and 1 there"):
        check(units, images(VARYING, 100 * index + 60))


def test_rounding_is_of_all_channels_that_vary():
    days = np.where(VARYING > 500, 20_000.0, 20_002.0)  # since 1970
    units = units_of(images(VARYING, days))
    assert units.scaling.scale[1] == 1.0 and units.rounded_away() > LOST
    assert units.unscaled(torch.zeros(1, 2, 4, 4)).dtype == torch.float64


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("number", np.float32([101325, 1.7e9, -1.7e9]))
def test_channels_that_vary_by_rounding_are_constant(dtype, number):
    constant = np.where(VARYING > 500, number, np.nextafter(number, np.float32(0)))
    units = units_of(x := images(VARYING, 300.0, constant).astype(np.float32))
    assert units.constant == (False, True, True) and units.rounded_away() < LOST
    check(units, x.astype(dtype))


def test_a_channel_that_was_constant_is_that_constant():
    """Kelvins, not degrees Celsius; zeros may be rounded as the networks see them."""
    units = units_of(x := images(VARYING, SMALL, 300.0, 0.0))
    for right in (x, images(VARYING, SMALL, np.nextafter(np.float32(300), np.float32(0)), 1e-9), x[:1]):
        check(units, right)
    check(units, x.astype(np.float16))
    for wrong, channel in ((images(VARYING, SMALL, 26.0, 0.0), 2), (images(VARYING, SMALL, 300.0, 1 + SMALL**2), 3)):
        with pytest.raises(ValueError, match=rf"^channel {channel} .* but is .* in all those trained on: bring it to"):
            check(units, wrong)
    parts = x.copy()
    parts[3, 2] = 301
    with pytest.warns(UserWarning, match="^channel 2 .* between 300 and 301, but is 300 in all those trained on: the"):
        check(units, parts)


def test_a_channel_that_is_constant_in_one_view_alone_may_vary():
    x = images(VARYING, SMALL, 300.0)
    turned = images(VARYING, SMALL, np.where(VARYING > 500, 300.0, 0.0))
    check(units_of(x, turned), turned)


def test_each_channel_is_compared_with_its_own_range(recwarn):
    """An accelerometer beside a gyroscope, in degrees a second; their means are about 0 in any unit."""
    small, large = RANDOM.normal(0, [[[[10]], [[500]]]], (40, 2, 4, 4)).swapaxes(0, 1)
    units = units_of(x := images(small, large))
    for right in (x, 1.4 * x, images(small / 100, large)[:7], x / 20, images(0 * small, large)):
        check(units, right)
    assert not recwarn
    with pytest.raises(ValueError, match=r"^channel 0 of the .* lies between .* there: bring it to the same units"):
        check(units, images(60 * small, large))
    for wrong, channel in ((images(small / 1000, large), 0), (images(small, np.deg2rad(large)), 1)):
        with pytest.warns(UserWarning, match=rf"^channel {channel} of .* there: is it in the same units\?"):
            check(units, wrong)


def test_rare_values_of_a_channel_may_be_far_off():
    units = units_of(x := images(SMALL, VARYING))
    one, spiky = x.copy(), x.copy()
    one[0, 0, 0, 0] += 5
    spiky[0, 0, :2, :3] += 5  # of 640
    for right in (one[:1], spiky):
        check(units, right)
    with pytest.raises(ValueError, match=r"^channel 0 of the .* lies between"):
        check(units, spiky[:2])


def test_bounds_may_be_more_than_half_precision_holds():
    units = units_of(x := images(SMALL, 30 * VARYING + 10_000, 50 * (VARYING - 500)))
    x[0, 1, 0, 0] = -65_000
    check(units, x.astype(np.float16))


def test_a_few_values_beyond_the_range_are_asked_about_and_no_pixels():
    units = Units(Scaling((0.0,), (1.0,)), channels_first=True, range=(-1.0, 1.0))
    x = np.random.default_rng(0).uniform(-1, 1, (5, 1, 10, 10))
    x[0, 0, 0, :4] = 40.0  # as of heavy tails
    with pytest.warns(
        UserWarning, match=r"lie between -.* and 40, and .* between -1 and 1: are they in the same units"
    ):
        units.check(x, x)
    x[:, 0, 0, :2] = 40.0
    with pytest.raises(ValueError, match="bring them to the same units"):
        units.check(x, x)


def test_pictures_less_a_mean_are_refused_and_what_interpolation_leaves_is_not(recwarn):
    facts = {"kind": "images", "shape": (3, 16, 16), "scaling": BYTES._asdict(), "range": PIXELS}
    units = Units.of(facts, hidden=False)
    x = RANDOM.uniform(0, 255, (4, 3, 16, 16))
    for wrong in (x - 120, x - 127, x + 100, x - np.array([124, 117, 104])[:, None, None]):
        with pytest.raises(ValueError, match="trained on between 0 and 255: bring them to the same units"):
            check(units, wrong)
    check(units, 1.15 * (x - 127.5) + 127.5)
    assert not recwarn
    x[0, 0, 0, 0] = -100
    with pytest.warns(UserWarning, match=r"lie between -100 and 2\d\d.*: are they in the same units"):
        units.check(x, x)
