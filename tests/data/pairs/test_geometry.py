"""Points and weights are known again in any precision and unit of weights, and others are told from them."""

import json

import numpy as np
import pytest

from niso.data.pairs.geometry import is_of, normalised, sketch

RANDOM = np.random.default_rng(0)
POINTS = {
    "in space": RANDOM.standard_normal((100, 3)),
    "far from the origin": np.array([5e5, 4.5e6]) + 100 * RANDOM.random((100, 2)),
    "in a plane of space": np.pad(RANDOM.random((100, 2)), ((0, 0), (0, 1))),
    "on a line": RANDOM.random((100, 1)),
}


def known(key: str, values: np.ndarray, given: np.ndarray) -> bool:
    """By what is read of a file again."""
    kept = json.loads(json.dumps(sketch(normalised(key, values))))
    return is_of(kept, normalised(key, given), given.dtype)


@pytest.mark.parametrize("name", POINTS)
def test_the_same_points_are_known_in_any_precision(name):
    points = POINTS[name]
    assert known("points", points, points) and known("points", points, points.astype(np.float32))
    if name != "far from the origin":  # beyond its range
        assert known("points", points, points.astype(np.float16))


@pytest.mark.parametrize("name", POINTS)
def test_other_points_and_other_orders_are_not_known(name):
    points = POINTS[name]
    swapped = points.copy()
    swapped[[3, 7]] = swapped[[7, 3]]
    others = {
        "turned round": points[::-1],
        "two swapped": swapped,
        "moved": points + points.std(0),
        "scaled": 1.1 * points,
        "with noise": points + 0.1 * points.std(0) * RANDOM.standard_normal(points.shape),
        "fewer": points[1:],
        "fewer coordinates": points[:, 1:],
        "more axes": points[None],
        "a number": np.array(3.0),
    }
    assert not [what for what, other in others.items() if known("points", points, other)]


def test_weights_are_known_in_any_unit():
    weights = 1 + RANDOM.random(100)
    assert known("weights", weights, weights) and known("weights", weights, 3 * weights.astype(np.float32))
    assert not known("weights", weights, weights[::-1]) and not known("weights", weights, weights.max() - weights + 0.1)
