"""The training of a head on frozen networks."""

import pytest
import torch
from torch import nn

from niso.errors import InputError
from niso.experiments.head import accuracy_chance, check_scores, frozen_phase, make_head
from niso.methods.config import ClassifierConfig
from tests.methods.test_rounding import Alike, make, observations


def test_phases_of_frozen_networks_are_read_finely():
    x, method, head = observations(), make(share=1e-3), nn.Flatten()
    phase = frozen_phase(method, head, ClassifierConfig(), x, lambda _: (x, torch.zeros(len(x))), None)
    with torch.autocast("cpu", torch.bfloat16):
        scores = phase.objective.scores(x)
    torch.testing.assert_close(scores, make(share=1e-3, half=False).head_features(x).flatten(1))


def of_frozen(method, x, labels, chosen=None, **settings):
    """A head's phase, and how often all observations have been encoded."""
    config, calls = ClassifierConfig(**settings), []

    def examples():
        calls.append(1)
        yield from zip(x.split(7), labels.split(7), strict=True)

    head = make_head(method, config, x, int(labels.max()) + 1)
    return frozen_phase(method, head, config, x, lambda _: (x[:2], labels[:2]), examples, chosen), calls


def test_heads_of_frozen_networks_are_trained_on_features_that_are_computed_once():
    x, labels, method = observations(), torch.arange(32), make(share=1.0, half=False)
    phase, calls = of_frozen(method, x, labels, label_smoothing=0.25)
    assert phase.prepare is not None and phase.objective.smoothing == 0.25
    phase.prepare()
    drawn = [phase.sampler(step) for step in range(60)]
    features, rows = (torch.cat(part) for part in zip(*drawn, strict=True))
    assert len(calls) == 1 and set(rows.tolist()) == set(range(32)) and not features.requires_grad
    torch.testing.assert_close(features, method.head_features(x)[rows])
    phase, _ = of_frozen(method, x, labels, chosen=lambda step: torch.tensor([step, 5]))
    assert phase.sampler(3)[1].tolist() == [3, 5]


def test_heads_that_need_augmentation_are_trained_on_observations_as_they_come():
    x, labels, method = observations(), torch.arange(32), make(share=1.0, half=False)
    type(method).augmented_head, before = True, type(method).augmented_head
    try:
        phase, calls = of_frozen(method, x, labels)
    finally:
        type(method).augmented_head = before
    assert phase.prepare is None and not calls and torch.equal(phase.sampler(0)[0], x[:2])


def test_a_head_is_made_by_what_evaluation_gives():
    class Moody(Alike):
        def forward(self, x):
            return super().forward(x) + 100 * self.training

    x, method = observations(), make(share=1.0, half=False)
    method.model.encoder = Moody(1.0)
    method.model.train()
    head = make_head(method, ClassifierConfig(), x, 3)
    assert not method.model.training
    assert float(head.scale) == pytest.approx(method.head_features(x).square().mean().sqrt().item(), rel=1e-5)


def test_the_accuracy_of_chance_is_that_of_the_most_frequent_label():
    assert accuracy_chance(torch.tensor([2, 0, 2, 2, 1])) == 0.6


def test_scores_that_are_not_finite_are_no_prediction():
    scores = torch.randn(5, 3)
    assert check_scores(scores) is scores
    scores[1, 2], scores[3] = torch.inf, torch.nan
    with pytest.raises(InputError, match=r"scores are not finite for 2 of 5 observations: look at its head"):
        check_scores(scores)
