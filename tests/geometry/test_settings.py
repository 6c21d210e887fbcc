"""Settings of actions: what they change, and what the documents say of them."""

import math
import re
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from niso.errors import InputError
from niso.geometry import ACTIONS, homographies
from niso.geometry.affine import AffineMaps
from niso.geometry.homographies import Homographies, WalkedHomographies
from niso.geometry.make import make_action
from niso.named_values import settable

SHAPES = {"images": (3, 6, 8), "volumes": (2, 4, 6, 8), "signals": (9, 2)}
PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "own-data.md"


def made(name, settings=None):
    """The action on the first kind of observations that it takes."""
    for kind, shape in SHAPES.items():
        try:
            make_action("--transform", name, kind, shape)
        except InputError:
            continue
        return make_action("--transform", name, kind, shape, settings)
    raise AssertionError(name)


def generator():
    return torch.Generator().manual_seed(0)


@pytest.mark.parametrize(
    ("name", "setting", "factor"),
    [
        ("homography", "deviation", 1.0),
        ("affine", "scale", 0.15),
        ("affine", "shear", 0.1),
        ("affine", "shift", 0.1),
        ("affine", "angle", 180.0),
        ("rotation", "angle", 180.0),
        ("colour", "deviation", 0.2),
        ("elastic", "deviation", 0.08),
        ("mobius", "deviation", 0.5),
        ("warp", "deviation", 0.15),
    ],
)
def test_smaller_settings_draw_smaller_transformations(name, setting, factor):
    others = {} if name != "affine" else dict.fromkeys(("angle", "scale", "shear", "shift"), 0.0)
    if name == "mobius":  # rotations are always uniform
        moved = [made(name, {setting: value}).sample(64, generator()).abs().amax((-2, -1)) for value in (0, factor)]
        assert (moved[0] <= 1.001).all() and (moved[1] > 1.001).any()
        return
    strengths = []
    for share in (0.0, 0.01, 1.0):
        action = replace(made(name, others | {setting: factor}), **{setting: share * factor})  # 0 is refused
        t = action.sample(64, generator())
        if name == "warp":
            t[:, 0] = 0  # shifts are always uniform
        strengths.append(action.strength(t).double())
    torch.testing.assert_close(strengths[0], torch.zeros(64, dtype=torch.float64), atol=1e-6, rtol=0)
    assert (strengths[1] <= strengths[2] + 1e-9).all() and strengths[2].max() > 10 * strengths[1].max() > 0


def test_defaults_are_what_is_drawn_without_settings():
    for name in ACTIONS:
        assert made(name) == made(name, {})
    assert made("affine", {"angle": 30}) == AffineMaps(angle=30.0, aspect=7 / 5)
    assert made("rotation", {"angle": 30}) == AffineMaps(angle=30.0, scale=0.0, shear=0.0, shift=0.0, aspect=7 / 5)


def test_angles_are_at_most_the_setting():
    t = made("rotation", {"angle": 30}).sample(200, generator())
    angles = torch.rad2deg(torch.acos(t[:, 0, 0].clamp(-1, 1)))
    assert 25 < angles.max() <= 30 + 1e-6


@pytest.mark.parametrize("deviation", [0.5, 2.0])
def test_deviation_scales_both_published_distributions(deviation):
    drawn, published = (homographies.sample_coefficients(9, generator(), factor) for factor in (deviation, 1.0))
    torch.testing.assert_close(drawn, deviation * published)
    walked = homographies.walk_coefficients(4_000, generator(), deviation)
    scales = deviation * torch.tensor(homographies.SCALES, dtype=torch.float64)
    assert ((walked / scales).std(0) - math.sqrt(0.5)).abs().max() < 0.05
    action = Homographies(deviation=deviation)
    assert action.test_distribution() == WalkedHomographies(deviation=deviation)


def test_the_page_names_all_settings_with_their_defaults():
    table = PAGE.read_text().partition("settings and their defaults")[2].partition("\n\n")[0]
    rows = {name: text for name, text in re.findall(r"^\| (\w+)[^|]*\| (.*) \|$", table, re.M) if name in ACTIONS}
    for name, text in rows.items():
        action = made(name)
        told = {word: float(value) for word, value in re.findall(r"`(\w+)=([\d.-]+)`", text)}
        assert all(getattr(action, word) == value for word, value in told.items()), name
        if name != "rotation":  # which has those of affine maps
            assert set(told) == {*settable(type(action))} - {"background", "layout"}
    silent = {name for name in ACTIONS if not {*settable(type(made(name)))} - {"background"}}
    assert rows.keys() == ACTIONS.keys() - silent
