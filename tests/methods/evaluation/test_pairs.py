"""What a method makes of held-out pairs: metrics, and the pairs that figures show."""

import pytest
import torch
from torch import nn

from niso.methods import METHODS
from niso.methods.config import MethodConfig
from niso.methods.evaluation.pairs import PAIR_METRICS, SHOWN, evaluate_pairs, mean_errors
from niso.methods.evaluation.repetition import repeat_maps
from niso.methods.method import Networks
from tests.methods.evaluation.planted import CHANNELS, POINTS, SIZE, batches, make


def test_planted_isometries_have_no_errors():
    evaluation = evaluate_pairs(make(), batches(3, 5))
    assert evaluation.metrics.keys() == {metric.key for metric in PAIR_METRICS}
    assert all(value == pytest.approx(0, abs=1e-5) for value in evaluation.metrics.values()), evaluation.metrics
    assert all(metric.better == "lower" and metric.text for metric in PAIR_METRICS)


def test_a_map_of_another_transformation_has_a_relative_error():
    evaluation = evaluate_pairs(make(), batches(8, wrong=True))
    metrics, views = evaluation.metrics, evaluation.views
    assert metrics["relative_map_error"] > 0.5
    assert (views["D τ E(ψ)"] - views["Tψ"]).abs().max() < 1e-3 < 0.5 < (views["D τ′ E(ψ)"] - views["Tψ"]).abs().mean()
    assert metrics["equivariance_error"] == pytest.approx(0, abs=1e-6)


def test_a_blank_observation_has_no_share_in_errors():
    wrong = list(batches(8, wrong=True))
    blank = [tuple(torch.cat([view, torch.zeros(1, POINTS, CHANNELS)]) for view in views) for views in wrong]
    with_blank, without = (evaluate_pairs(make(), views).metrics for views in (blank, wrong))
    for name in ("relative_map_error", "equivariance_error"):
        assert with_blank[name] == without[name]


def test_what_all_observations_share_makes_no_centred_error_small():
    apart, common = (list(batches(16, wrong=True)) for _ in range(2))
    common = [tuple(view + 10 for view in views) for views in common]
    without, shared = (evaluate_pairs(make(), views).metrics for views in (apart, common))
    assert shared["relative_map_error"] < 0.1 * without["relative_map_error"]
    assert shared["relative_map_error_centred"] > 0.5 * without["relative_map_error_centred"] > 0.25


def test_centred_errors_are_relative_to_what_is_left_of_the_targets():
    """Of transformed observations that have a mean of their own, other than that of ψ and of predictions."""
    method = make()
    x, tx, ttx = torch.randn(3, 16, POINTS, CHANNELS) + torch.tensor([0.0, 3, 7])[:, None, None, None]
    a, b, c = map(method.encode, (x, tx, ttx))
    tau = method.solve(a, b)
    for metrics, key, moved, target in (
        (evaluate_pairs(method, [(x, tx)]).metrics, "equivariance_error_centred", tau @ a, b),
        (repeat_maps(method, [(x, tx, ttx)]).metrics, "repetition_error_centred", tau @ tau @ a, c),
    ):
        errors = (moved - target).square().sum((1, 2)) / (target - target.mean(0)).square().sum((1, 2))
        assert metrics[key] == pytest.approx(15 / 16 * errors.mean().item(), rel=1e-4)
    error = (method.decode(tau @ a) - tx).abs().mean().item()
    assert evaluate_pairs(method, [(x, tx)]).metrics["reconstruction_error"] == pytest.approx(error, rel=1e-4)


@pytest.mark.parametrize("count", [2, 3, 5, 10])
def test_a_prediction_of_the_true_mean_has_a_centred_error_of_one(count, dtype):
    draws = torch.randn(100, count, POINTS, CHANNELS, generator=torch.Generator().manual_seed(0), dtype=dtype)
    errors = [mean_errors("error", torch.full_like(b, 3.0), b + 3)["error_centred"] for b in draws]
    assert sum(errors) / len(errors) == pytest.approx(1, abs=0.03)


def test_one_observation_has_no_centred_error(dtype):
    b = torch.ones(1, POINTS, CHANNELS, dtype=dtype)
    assert mean_errors("error", 2 * b, b) == {"error": 1.0}
    assert "equivariance_error_centred" not in evaluate_pairs(make(), batches(1)).metrics


def test_pairs_with_others_and_without_are_measured_together():
    (x, tx, y, ty), *_ = batches(9, wrong=True)
    tx = tx + 0.3 * torch.randn_like(tx)
    parts = [(x[:3], tx[:3], y[:3], ty[:3]), (x[3:], tx[3:])]
    mixed = evaluate_pairs(make(), parts)
    whole, some = (evaluate_pairs(make(), [views]).metrics for views in ((x, tx), parts[0]))
    for key in ("reconstruction_error", "equivariance_error", "equivariance_error_centred"):
        assert mixed.metrics[key] == pytest.approx(whole[key], rel=1e-4)
    assert mixed.metrics["relative_map_error"] == pytest.approx(some["relative_map_error"], rel=1e-4)
    assert mixed.metrics["relative_map_error_centred"] > 0.5
    assert {len(view) for view in mixed.views.values()} == {len(mixed.maps.own)} == {len(mixed.maps.other)} == {3}
    alone_first = evaluate_pairs(make(), parts[::-1])
    assert alone_first.metrics == pytest.approx(mixed.metrics, rel=1e-4)
    assert {len(view) for view in alone_first.views.values()} == {6} and alone_first.maps.other is None


def test_the_relative_map_error_needs_other_observations():
    evaluation = evaluate_pairs(make(), batches(3, others=False))
    assert not [key for key in evaluation.metrics if key.startswith("relative")]
    assert "equivariance_error" in evaluation.metrics
    assert evaluation.maps.other is None
    assert list(evaluation.views) == ["ψ", "Tψ", "D E(ψ)", "D τ E(ψ)"]


def test_nft_fits_the_pair_and_says_nothing_of_the_transformation():
    """Why the relative error is there: unrelated observations of few channels are related by some map exactly."""

    def unrelated():
        yield torch.randn(4, 6, POINTS, CHANNELS)[..., :4].unbind(0)

    method = METHODS.find("nft")(MethodConfig(rank=POINTS), Networks(nn.Identity(), nn.Identity(), (SIZE, SIZE), 4))
    metrics = evaluate_pairs(method, unrelated()).metrics
    assert metrics["equivariance_error"] < 1e-3 < 0.5 < metrics["relative_map_error"]


def test_means_are_over_pairs_not_batches():
    (x, tx, y, ty), *_ = batches(6, wrong=True)
    noisy = tx + torch.linspace(0, 1, 6)[:, None, None] * torch.randn_like(tx)
    whole = evaluate_pairs(make(), [(x, noisy, y, ty)]).metrics
    parts = [tuple(view[part] for view in (x, noisy, y, ty)) for part in (slice(1), slice(1, 6))]
    divided = evaluate_pairs(make(), parts).metrics
    assert whole["equivariance_error"] > 1e-3
    assert divided == pytest.approx(whole, rel=1e-4)


@pytest.mark.parametrize("sizes", [(2,), (3, 3, 3), (20,)])
def test_the_first_pairs_are_kept_once_and_in_order(sizes):
    shown = 5
    evaluation = evaluate_pairs(make(), batches(*sizes), shown)
    kept = min(shown, sum(sizes))
    wanted = [torch.cat(parts)[:kept] for parts in zip(*batches(*sizes), strict=True)]
    views = evaluation.views
    assert list(views) == ["ψ", "Tψ", "D E(ψ)", "D τ E(ψ)", "D τ′ E(ψ)"]
    assert torch.equal(views["ψ"], wanted[0]) and torch.equal(views["Tψ"], wanted[1])
    for name, target in (("D E(ψ)", wanted[0]), ("D τ E(ψ)", wanted[1]), ("D τ′ E(ψ)", wanted[1])):
        torch.testing.assert_close(views[name], target, rtol=0, atol=1e-4)
    assert evaluation.maps.own.shape == evaluation.maps.other.shape == (kept, POINTS, POINTS)
    torch.testing.assert_close(evaluation.maps.own, evaluation.maps.other, rtol=0, atol=1e-4)


def test_so_many_are_kept_by_default():
    assert len(evaluate_pairs(make(), batches(SHOWN + 1)).views["ψ"]) == SHOWN


def test_a_method_without_maps_is_measured_by_its_reconstructions():
    method = make("autoencoder")
    evaluation = evaluate_pairs(method, batches(3))
    assert evaluation.metrics == {"reconstruction_error": 0.0} and evaluation.maps is None
    assert list(evaluation.views) == ["ψ", "Tψ", "D E(Tψ)"]
    method.model.decoder = nn.Dropout(0.5)  # evaluation mode leaves it out
    assert evaluate_pairs(method, batches(3)).metrics == {"reconstruction_error": 0.0}


def test_maps_of_another_shape_are_named():
    method = make()
    method.solve = lambda a, b: a
    with pytest.raises(TypeError, match=r"solve must give maps \(3, 16, 16\) of coefficients .*, not \(3, 16, 20\)"):
        evaluate_pairs(method, batches(3))


def test_the_mean_of_centred_errors_may_be_over_more_observations(dtype):
    everything = torch.randn(9, POINTS, CHANNELS, generator=torch.Generator().manual_seed(0), dtype=dtype)
    moved, b = everything[:3].flip(0), everything[:3]
    left = (b - everything.mean(0)).square().sum((1, 2))
    centred = 8 / 9 * ((moved - b).square().sum((1, 2)) / left).mean().item()
    assert mean_errors("error", moved, b, everything)["error_centred"] == pytest.approx(centred, rel=1e-4)
    assert "error_centred" in mean_errors("error", moved[:1], b[:1], everything)


def test_the_mean_of_relative_errors_is_that_of_all_pairs_also_of_those_without_others():
    (x, tx, y, ty), *_ = batches(9, wrong=True)
    x[3:], tx[3:] = x[3:] + 3, tx[3:] + 3
    metrics = evaluate_pairs(make(), [(x[:3], tx[:3], y[:3], ty[:3]), (x[3:], tx[3:])]).metrics
    method = make()
    a, b, c, d = map(method.encode, (x[:3], tx, y[:3], ty[:3]))
    carried = method.solve(c, d) @ a
    expected = mean_errors("relative_map_error", carried, b[:3], b)
    assert metrics["relative_map_error_centred"] == pytest.approx(expected["relative_map_error_centred"], rel=1e-4)
    assert mean_errors("relative_map_error", carried, b[:3]) != pytest.approx(expected, rel=1e-2)
