"""What maps predict of a transformation that is applied twice."""

import pytest
import torch

from niso.methods.evaluation.repetition import REPETITION_METRICS, repeat_maps
from tests.methods.evaluation.planted import ACTION, CHANNELS, POINTS, make


def test_squares_of_planted_maps_are_of_the_transformation_twice():
    found = repeat_maps(make(), [(x, tx, ttx) for x, tx, _, ttx in moved_twice(9, 3)])
    assert found.metrics.keys() == {metric.key for metric in REPETITION_METRICS}
    assert all(value == pytest.approx(0, abs=1e-5) for value in found.metrics.values())
    assert list(found.views) == ["ψ", "Tψ", "T²ψ", "D τ² E(ψ)"] and all(len(view) == 8 for view in found.views.values())
    torch.testing.assert_close(found.views["D τ² E(ψ)"], found.views["T²ψ"], atol=1e-4, rtol=0)
    once = repeat_maps(make(), [(x, tx, tx) for x, tx, *_ in moved_twice(3, 9)])
    assert once.metrics["repetition_error"] > 0.5


def moved_twice(*sizes: int):
    """Functions, the same under random shifts, those shifts, and the functions under these twice."""
    generator = torch.Generator().manual_seed(1)
    for size in sizes:
        x, t = torch.randn(size, POINTS, CHANNELS, generator=generator), ACTION.sample(size, generator)
        yield x, ACTION.act(x, t), t, ACTION.act(x, ACTION.compose(t, t))
