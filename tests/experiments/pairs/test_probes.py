"""Simple classifiers on features: what can be told is told, and what is all alike is guessed."""

import torch

from niso.experiments.pairs.probes import probe


def test_features_that_tell_classes_apart_are_enough():
    torch.manual_seed(0)
    labels = torch.arange(60) % 3
    features = torch.randn(60, 8) + 10 * torch.nn.functional.one_hot(labels, 8)
    scores = probe((features[:40], labels[:40]), {"clean": (features[40:], labels[40:])})
    assert scores["linear"]["clean"] == scores["knn"]["clean"] == 1.0


def test_features_that_are_all_alike_leave_a_guess():
    labels = torch.tensor([0, 0, 0, 1])
    scores = probe((torch.ones(4, 3), labels), {"clean": (torch.ones(4, 3), labels)})
    assert scores["linear"]["clean"] == 0.75
