"""What `studies.remedies` does to an optimiser: a hook that no longer works would be seen nowhere else."""

import pytest
import torch
from torch import nn

from niso.objective import IsometryObjective
from studies.remedies import Average, Centring, GrowingObjective, clip


@pytest.fixture
def step():
    """Takes a step of SGD on a weight, whose gradient is given; the weight after it."""
    weight = nn.Parameter(torch.zeros(2))
    optimiser = torch.optim.SGD([weight], lr=1.0)

    def take(*gradient: float) -> list[float]:
        weight.grad = torch.tensor(gradient, dtype=weight.dtype)
        optimiser.step()
        return weight.tolist()

    return take


def test_the_average_replaces_the_weights_at_the_last_step(step):
    average = Average(steps=3, decay=0.75)
    try:
        assert step(-1, 0) == [1, 0]
        assert step(-1, 0) == [2, 0]
        mean = 0.75 * (0.75 * 1 + 0.25 * 2) + 0.25 * 3
        assert step(-1, 0) == [pytest.approx(mean), 0]
        assert step(-1, 0) == [pytest.approx(mean + 1), 0]  # later phases are left alone
    finally:
        average.handle.remove()


def test_gradients_are_clipped_to_a_norm(step):
    handle = clip(norm=1.0)
    try:
        assert step(-3, 4) == [pytest.approx(0.6, rel=1e-4), pytest.approx(-0.8, rel=1e-4)]
    finally:
        handle.remove()
    assert step(-3, 0)[0] == pytest.approx(3.6, rel=1e-4)


def test_the_weight_grows_from_zero(monkeypatch):
    monkeypatch.setattr(GrowingObjective, "__init__", lambda self: nn.Module.__init__(self))
    objective = GrowingObjective()
    objective.multiplicity = 0.1
    assert [objective.multiplicity_at(progress) for progress in (0.0, 0.5, 1.0)] == [0.0, 0.05, 0.1]
    assert GrowingObjective.multiplicity_at is not IsometryObjective.multiplicity_at  # what training asks for


def test_latents_are_centred_by_their_batch_and_later_by_the_mean_of_batches():
    centring, z = Centring(points=2, channels=3, momentum=0.5), torch.randn(7, 2, 3)
    torch.testing.assert_close(centring(z), z - z.mean(0))
    centring(z)
    torch.testing.assert_close(centring.eval()(z), z - 0.75 * z.mean(0))
