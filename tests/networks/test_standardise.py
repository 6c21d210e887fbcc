"""Features of a batch that several processes share are standardised as those of one."""

import pytest
import torch

from niso import collective
from niso.config import Optimisation
from niso.experiments.homnist.presets import HomnistConfig
from niso.networks import standardise
from niso.networks.standardise import Standardise


def test_two_halves_are_standardised_as_the_whole(monkeypatch, generator):
    whole = 3 + 2 * torch.randn(8, 5, generator=generator)
    one, first = Standardise(5, 1e-5), Standardise(5, 1e-5)
    expected = one(whole)
    torch.testing.assert_close(expected.mean(0), torch.zeros(5), atol=1e-6, rtol=0)
    monkeypatch.setattr(collective, "process", lambda: (0, 2))
    monkeypatch.setattr(standardise, "global_batch", lambda part: torch.cat([part, whole[4:]]))
    torch.testing.assert_close(first(whole[:4]), expected[:4])
    torch.testing.assert_close(first.running_var, one.running_var)
    monkeypatch.setattr(standardise, "global_batch", lambda part: pytest.fail("called in evaluation"))
    torch.testing.assert_close(first.eval()(whole[:3]), one.eval()(whole[:3]))


def test_early_batches_are_forgotten(generator):
    """Features move while a head and the networks below it are trained together."""
    standardise = Standardise(5, 1e-5)
    for step in range(200):
        batch = (1 + step) * (3 + torch.randn(64, 5, generator=generator))
        standardise(batch)
    later = standardise.eval()(batch)
    assert later.mean(0).abs().max() < 0.5 and (later.std(0) - 1).abs().max() < 0.3


@pytest.mark.parametrize("steps", [1, 20])
def test_faint_features_are_standardised_from_the_first_step(steps, generator):
    """The zeros and ones that running statistics begin with are forgotten at once."""
    standardise = Standardise(5, 1e-12)
    for _ in range(steps):
        standardise(batch := 1 + 1e-3 * torch.randn(512, 5, generator=generator))
    standardised = standardise.eval()(batch)
    assert standardised.mean(0).abs().max() < 0.2 and (standardised.std(0) - 1).abs().max() < 0.1


@pytest.mark.parametrize(
    ("steps", "message"), [({"batch_size": 1}, "larger one"), ({"accumulation": 4}, "accumulate none")]
)
def test_batches_that_cannot_be_standardised_are_refused(steps, message):
    with pytest.raises(ValueError, match=message):
        HomnistConfig(classifier="eigenspaces", head=Optimisation(steps=2, **steps))
