"""Pairs of frames, and the pose head's loss."""

import math
from typing import get_args

import pytest
import torch

from niso.experiments.pose.losses import PoseObjective, Scale, rotation_loss, translation_loss
from niso.experiments.pose.pairs import draw_pairs
from niso.geometry import se3

LENGTHS = torch.tensor([30, 4, 1, 2, 12])
MEMBERS = torch.tensor([0, 1, 3, 4])


def test_pairs_are_of_one_sequence_and_not_further_apart_than_allowed(generator):
    pairs = draw_pairs(LENGTHS, MEMBERS, 4_000, 5, generator)
    assert set(pairs.sequence.tolist()) == set(MEMBERS.tolist())
    apart = pairs.second - pairs.first
    assert (pairs.first >= 0).all() and (pairs.second < LENGTHS[pairs.sequence]).all()
    for sequence, most in ((0, 6), (1, 3), (3, 1), (4, 6)):
        distances = apart[pairs.sequence == sequence]
        counts = torch.bincount(distances, minlength=most + 1) / len(distances)
        assert len(counts) == most + 1 and counts[0] == 0
        torch.testing.assert_close(counts[1:], torch.full((most,), 1 / most), atol=0.07, rtol=0)
    longest = pairs.sequence == 0
    assert set(pairs.first[longest].tolist()) >= set(range(24)) and pairs.second[longest].max() == 29


def test_pairs_in_both_directions_and_of_a_frame_with_itself(generator):
    pairs = draw_pairs(LENGTHS, MEMBERS, 3_000, 2, generator, signed=True, identical=True)
    apart = (pairs.second - pairs.first)[pairs.sequence == 0]
    assert set(apart.tolist()) == set(range(-3, 4))
    assert abs(apart.sign().float().mean()) < 0.1

    only = draw_pairs(LENGTHS, MEMBERS, 500, 2, generator, signed=True)
    assert (only.second != only.first).all()


def test_groups_are_of_one_sequence(generator):
    pairs = draw_pairs(LENGTHS, MEMBERS, 40, 3, generator, group=4)
    assert (pairs.sequence.view(10, 4) == pairs.sequence.view(10, 4)[:, :1]).all()
    assert len(set(pairs.sequence.tolist())) > 1


def test_the_rotation_loss_is_a_frobenius_norm(dtype, tolerance, random_poses):
    angles = torch.tensor([0.3, 1.2], dtype=dtype)
    zero = torch.zeros(2, 5, dtype=dtype)
    turned = se3.exp(torch.cat([zero, angles[:, None]], dim=1))
    truth = random_poses(2, dtype=dtype)
    expected = (math.sqrt(8) * (angles / 2).sin()).mean()
    torch.testing.assert_close(rotation_loss(truth @ turned, truth), expected, atol=10 * tolerance, rtol=0)


def moved(poses: torch.Tensor, translations: torch.Tensor) -> torch.Tensor:
    return se3.pose(se3.rotation(poses), translations)


def test_the_translation_loss_does_not_see_a_groups_scale(dtype, tolerance, random_poses):
    truth = random_poses(12, dtype=dtype)
    scales = torch.tensor([0.01, 3.0, 500.0], dtype=dtype).repeat_interleave(4)[:, None]
    scaled = moved(truth, scales * se3.translation(truth))
    assert translation_loss(scaled, truth, 4) < 10 * tolerance
    assert translation_loss(scaled, truth, 12) > 0.1  # of one scale for all
    assert translation_loss(moved(truth, -se3.translation(truth)), truth, 4) < 10 * tolerance  # nor the sign


def test_the_scale_by_norms_sees_the_sign_and_leads_to_it(dtype, tolerance, random_poses):
    truth = random_poses(12, dtype=dtype)
    t = se3.translation(truth)
    scales = torch.tensor([0.01, 3.0, 500.0], dtype=dtype).repeat_interleave(4)[:, None]
    assert translation_loss(moved(truth, scales * t), truth, 4, "norm") < 10 * tolerance
    assert translation_loss(moved(truth, scales * t), truth, 4, "unit") < 10 * tolerance
    opposite = translation_loss(moved(truth, -t), truth, 4, "norm")
    torch.testing.assert_close(opposite, 2 * t.unflatten(0, (-1, 4)).norm(dim=(-2, -1)).mean())
    guess = (0.1 * torch.randn(12, 3, dtype=dtype) - t).requires_grad_()
    optimizer = torch.optim.Adam([guess], lr=0.1)
    for _ in range(100):
        optimizer.zero_grad()
        translation_loss(moved(truth, guess), truth, 4, "norm").backward()
        optimizer.step()
    assert torch.cosine_similarity(guess, t).min() > 0.95


def test_in_units_slow_cameras_count_as_much_as_fast_ones(dtype, tolerance, random_poses):
    truth, predicted = random_poses(12, dtype=dtype), random_poses(12, dtype=dtype)
    slow = moved(truth, torch.tensor([1e-9, 1.0, 40.0], dtype=dtype).repeat_interleave(4)[:, None] * truth[:, :3, 3])
    loss = translation_loss(predicted, truth, 4, "unit")
    torch.testing.assert_close(translation_loss(predicted, slow, 4, "unit"), loss)
    assert abs(translation_loss(predicted, slow, 4, "norm") / loss - 1) > 0.1


def test_weights_are_those_of_the_draw(generator):
    weights = torch.tensor([0.5, 0.0, 0.25, 0.25])
    pairs = draw_pairs(LENGTHS, MEMBERS, 8_000, 2, generator, group=2, weights=weights)
    shares = torch.bincount(pairs.sequence, minlength=5) / 8_000
    torch.testing.assert_close(shares[MEMBERS], weights, atol=0.03, rtol=0)


def test_the_scale_is_the_best_there_is(dtype, random_poses):
    predicted, truth = random_poses(8, dtype=dtype), random_poses(8, dtype=dtype)
    loss = translation_loss(predicted, truth, 8)
    t, guess = se3.translation(truth), se3.translation(predicted)
    others = torch.stack([(t - s * guess).norm() for s in torch.linspace(-2, 2, 401, dtype=dtype)])
    assert loss <= others.min() * (1 + 1e-6) and loss > 0.999 * others.min()


@pytest.mark.parametrize("scale", get_args(Scale))
@pytest.mark.parametrize("still", [(), ("truth",), ("guess",), ("truth", "guess")])
def test_gradients_are_finite_where_nothing_moves(dtype, scale, still, random_poses):
    truth = random_poses(4, dtype=dtype)
    if "truth" in still:  # a camera on a tripod
        truth = moved(truth, torch.zeros(4, 3, dtype=dtype))
    guess = torch.randn(4, 3, dtype=dtype) if "truth" in still else se3.translation(truth).clone()
    guess = (0 * guess if "guess" in still else guess).requires_grad_()
    loss = translation_loss(moved(truth, guess), truth, 4, scale)
    loss.backward()
    assert loss.isfinite() and guess.grad.isfinite().all()


def test_the_objective_is_the_sum_of_both(dtype, random_poses):
    truth, guess = random_poses(8, dtype=dtype), random_poses(8, dtype=dtype)

    class Fixed(torch.nn.Module):
        def forward(self, first, second):
            return guess

    terms = PoseObjective(Fixed(), 4)((truth, truth, truth), 0.5)
    torch.testing.assert_close(terms["loss"], rotation_loss(guess, truth) + translation_loss(guess, truth, 4))
    assert terms.keys() == {"loss", "rotation", "translation"}
