"""Simple classifiers on features: what can be told is told, and what is all alike is guessed."""

from unittest.mock import Mock

import pytest
import torch

from niso.experiments.pairs.probes import probe
from niso.experiments.pairs.retrieval import chance, retrieval, retrieved, similarity
from niso.methods.method import Method


def test_features_that_tell_classes_apart_are_enough():
    torch.manual_seed(0)
    labels = torch.arange(60) % 3
    features = torch.randn(60, 8) + 10 * torch.nn.functional.one_hot(labels, 8)
    scores = probe((features[:40], labels[:40]), {"clean": (features[40:], labels[40:])})
    assert scores["linear"]["clean"] == scores["knn"]["clean"] == 1.0


def test_what_is_tested_does_not_scale_the_features():
    """Each observation is told as if alone, though they lie elsewhere than those to train on, and one far off."""
    torch.manual_seed(0)
    labels = torch.arange(80) % 2
    features = torch.stack([2 * labels + 0.3 * torch.randn(80), 1_000 * torch.randn(80)], 1)
    features[60:] = features[60:] * torch.tensor([1, 1e-3]) + torch.tensor([0.7, 0])
    features[-1, 0] = 1_000
    train = features[:60], labels[:60]
    whole = probe(train, {"whole": (features[60:], labels[60:])})
    each = [probe(train, {"one": (features[row, None], labels[row, None])}) for row in range(60, 80)]
    for name in ("linear", "knn"):
        assert whole[name]["whole"] == pytest.approx(sum(one[name]["one"] for one in each) / 20)


def test_units_of_features_change_nothing():
    torch.manual_seed(0)
    labels = torch.arange(80) % 2
    features = torch.stack([2 * labels + 0.5 * torch.randn(80), torch.randn(80)], 1).double()
    plain, scaled = (
        probe((part[:60], labels[:60]), {"clean": (part[60:], labels[60:])})
        for part in (features, features * torch.tensor([1e-3, 1e3]) + 5)
    )
    assert plain == scaled and plain["knn"]["clean"] > 0.8


def test_features_that_are_all_alike_leave_a_guess():
    labels = torch.tensor([0, 0, 0, 1])
    scores = probe((torch.ones(4, 3), labels), {"clean": (torch.ones(4, 3), labels)})
    assert scores["linear"]["clean"] == 0.75


def test_features_that_are_constant_or_mere_rounding_change_nothing():
    torch.manual_seed(0)
    labels = torch.arange(80) % 2
    told = torch.stack([2 * labels + 0.5 * torch.randn(80), torch.randn(80)], 1).double()
    rounding = 1e-12 * torch.randn(80, 5).double()
    later = torch.zeros(80, 1)
    later[60:] = 1e-3  # constant in what is trained on alone
    plain, more = (
        probe((part[:60], labels[:60]), {"clean": (part[60:], labels[60:])})
        for part in (told, torch.cat([told, rounding, later, torch.full((80, 2), 0.1)], 1))
    )
    assert plain == more


def test_what_is_nearest_is_found_and_ties_count_as_in_random_order():
    scores = torch.tensor([[3.0, 1, 2], [0, 1, 2], [1, 1, 1]])
    found = retrieved(scores, torch.tensor([0, 1, 2]))
    assert found.mean_average_precision == pytest.approx((1 + 1 / 2 + (1 + 1 / 2 + 1 / 3) / 3) / 3)
    assert found.first == pytest.approx((1 + 0 + 1 / 3) / 3)
    assert retrieved(torch.tensor([[2.0, 1, 1, 0]]), torch.tensor([1])) == (pytest.approx((1 / 2 + 1 / 3) / 2), 0)
    for alike in (0.0, torch.nan):
        expected = pytest.approx((chance(5), 1 / 5))
        assert tuple(retrieved(torch.full((5, 5), alike), torch.arange(5))) == expected
    gallery = torch.randn(6, 4, generator=torch.Generator().manual_seed(0))
    assert similarity(3 * gallery + 7, 3 * gallery + 7).argmax(1).tolist() == list(range(6))
    assert similarity(gallery[:, :1], gallery[:, :1]).argmax(1).tolist() == list(range(6))  # all cosines are ±1
    line = torch.randn(400, 1, generator=torch.Generator().manual_seed(0))
    assert retrieved(similarity(line, line), torch.arange(400)) == (1, 1)  # of which many are near each other
    assert torch.equal(similarity(torch.ones(2, 3), torch.ones(5, 3)), torch.zeros(2, 5))  # all alike


def test_observations_are_looked_for_by_their_transformed_views():
    """0.4 is nearer to 0 than to the 1 that it comes from, although 1 is nearer to it than to the other views."""

    method = Mock(spec=Method, has_invariants=False, latents=lambda x: x)
    x, tx = torch.tensor([[0.0], [1.0], [10.0]]), torch.tensor([[0.0], [0.4], [10.0]])
    found = retrieval(method, [(x, tx)])
    for name in ("_raw", "_latents"):
        assert found[f"retrieval_first{name}"] == pytest.approx(2 / 3)
        assert found[f"retrieval_map{name}"] == pytest.approx((1 + 1 / 2 + 1) / 3)


def test_an_observation_that_is_there_under_several_transformations_is_looked_for_once():
    method = Mock(spec=Method, has_invariants=False, latents=lambda x: x)
    x = torch.randn(4, 5)
    found = retrieval(method, [(x[[2, 2, 0]], x[[2, 2, 0]]), (x[[1, 3, 3]], x[[1, 3, 3]])])
    assert found["retrieval_map_raw"] == found["retrieval_first_latents"] == 1
    assert found["retrieval_map_chance"] == pytest.approx((1 + 1 / 2 + 1 / 3 + 1 / 4) / 4)
