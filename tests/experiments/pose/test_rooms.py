"""Rooms under one camera motion: groups of them, maps between them, and maps that compose."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import nn

from niso import losses, metrics
from niso.config import Optimisation
from niso.errors import InputError
from niso.experiments.pose import rooms
from niso.experiments.pose.experiment import Pose
from niso.experiments.pose.frames import Frames
from niso.experiments.pose.losses import CompositionObjective
from niso.experiments.pose.pairs import Pairs, draw_pairs, draw_shared, draw_third
from niso.experiments.pose.rendered import open_shared
from niso.geometry import se3
from niso.geometry import trajectories as trajectory
from niso.methods.method import Method
from niso.random import EVALUATION_SEED

CPU = torch.device("cpu")
LENGTHS = torch.full((24,), 9)


@pytest.mark.parametrize("group", [1, 2, 4])
def test_groups_are_different_rooms_at_the_same_moments(generator, group):
    pairs = draw_shared(LENGTHS, 4, 400, 3, generator, group)
    sequence, first, second = (part.view(-1, group) for part in (pairs.sequence, *pairs.frames))
    assert (sequence // 4 == sequence[:, :1] // 4).all() and sequence.unique().tolist() == list(range(24))
    assert all(len(set(row.tolist())) == group for row in sequence)
    assert (first == first[:, :1]).all() and (second == second[:, :1]).all()
    assert (second > first).all() and (second - first).max() == 4 and second.max() == 8


def test_third_frames_are_within_reach_of_both(generator):
    lengths = torch.tensor([30, 4, 9])
    pairs = draw_pairs(lengths, torch.arange(3), 3_000, 5, generator, signed=True)
    third = draw_third(pairs, lengths, 5, generator)
    assert (third >= 0).all() and (third < lengths[pairs.sequence]).all()
    for other in pairs.frames:
        assert (third - other).abs().max() == 6
    shared_ones = Pairs(*(part.repeat_interleave(3) for part in (pairs.sequence, *pairs.frames)))
    assert (draw_third(shared_ones, lengths, 5, generator, 3).view(-1, 3).diff() == 0).all()


def test_the_composition_of_a_representation_is_exact(dtype, tolerance, generator, random_poses):
    rotations = se3.rotation(random_poses(30, generator, dtype=dtype)).unflatten(0, (3, 10))
    ab, bc = rotations[:2]
    assert losses.composition(ab, bc, bc @ ab) < tolerance
    assert metrics.composition_error(ab, bc, bc @ ab).max() < tolerance
    other = rotations[2]
    assert losses.composition(ab, bc, other) == pytest.approx(float(metrics.composition_error(ab, bc, other).mean()))
    assert 0.5 < losses.composition(ab, bc, other) <= 4


class Nothing(nn.Module):
    """An objective of no terms."""

    def forward(self, batch, progress):
        return {"loss": torch.zeros(())}


def test_the_composition_loss_is_of_maps_in_their_order(make, monkeypatch, generator, random_poses):
    method = make().method
    monkeypatch.setattr(method, "encode", lambda turns: turns)
    monkeypatch.setattr(method, "solve", lambda a, b: b @ a.mT)
    first, second, third = se3.rotation(random_poses(30, generator)).split(10)
    terms = CompositionObjective(Nothing(), method, 0.5)((first, second, third), 0.0)
    assert terms["composition"] < 1e-6


def test_the_composition_loss_is_one_term_with_a_weight(make):
    experiment = make(composition=0.5)
    phase = next(experiment.phases())
    assert isinstance(phase.objective, CompositionObjective)
    batch = phase.sampler(0)
    assert len(batch) == 3 and len({part.shape for part in batch}) == 1
    terms = phase.objective(batch, 0.0)
    own = phase.objective.objective(batch[:2], 0.0)
    torch.testing.assert_close(terms["loss"], own["loss"] + 0.5 * terms["composition"])
    terms["composition"].backward()
    assert all(value.grad.isfinite().all() for value in phase.objective.parameters() if value.grad is not None)
    assert any(value.grad is not None and value.grad.abs().max() > 0 for value in experiment.method.model.parameters())
    without = make()
    first, second = next(without.phases()).sampler(0)
    assert torch.equal(first, batch[0]) and torch.equal(second, batch[1])


def moved(frames: Frames, pairs: Pairs) -> torch.Tensor:
    """True motions of the pairs."""
    poses = torch.stack([frames.poses[number] for number in pairs.sequence.tolist()])
    first, second = (poses[torch.arange(len(poses)), frame] for frame in pairs.frames)
    return se3.relative(first, second)


@pytest.mark.parametrize("mirrored", [False, True])
def test_clips_that_share_motions_do_so(tiny_pose, mirrored):
    config = replace(tiny_pose, shared_clips=6, rooms=3, mirrored=mirrored)
    frames = open_shared(config, CPU)
    assert len(frames.lengths) == 6 * (1 + mirrored)
    pairs = draw_shared(frames.lengths, 3, 30, 4, torch.Generator().manual_seed(0), 3)
    motions = moved(frames, pairs).unflatten(0, (-1, 3))
    torch.testing.assert_close(motions, motions[:, :1].expand_as(motions), atol=1e-9, rtol=0)
    images = frames.read(pairs.sequence, pairs.first).float().unflatten(0, (-1, 3))
    assert (images[:, 0] - images[:, 1]).abs().mean() > 5
    for held_out in rooms.open_rooms(config, CPU).values():
        motions = [trajectory.relative_poses(poses) for poses in held_out.poses]
        for one, other in zip(motions[::2], motions[1::2], strict=True):
            torch.testing.assert_close(one, other, atol=1e-9, rtol=0)


@pytest.mark.parametrize("share, single", [(1.0, 0), (0.5, 4)])
def test_batches_hold_groups_and_pairs_that_fill_a_group_by_themselves(make, share, single):
    experiment = make("niso-group", shared=share, training=Optimisation(steps=2, batch_size=8))
    first, second = next(experiment.phases()).sampler(3)
    assert len(first) == len(second) == 8
    pairs = experiment.sampling.shared_pairs(3, 8 - single)
    assert torch.equal(first[: 8 - single], experiment.sampling.shared(pairs.sequence, pairs.first))
    for views in (first, second):
        alone = views[8 - single :].unflatten(0, (-1, 2)) if single else views[:0]
        assert single == 0 or torch.equal(alone[:, 0], alone[:, 1])
        together = views[: 8 - single].unflatten(0, (-1, 2))
        assert not torch.equal(together[:, 0], together[:, 1])


def test_pairs_can_be_of_the_same_clips(make):
    experiment = make(shared=1.0)
    pairs = experiment.sampling.shared_pairs(0, 4)
    first, second = next(experiment.phases()).sampler(0)
    assert torch.equal(first, experiment.sampling.shared(pairs.sequence, pairs.first))
    assert torch.equal(second, experiment.sampling.shared(pairs.sequence, pairs.second))
    assert make().sampling.shared is None and make("constant-motion", shared=1.0).sampling.shared is None


class Known(Method):
    """A method whose coefficients turn with the camera, exactly or not at all."""

    build = objective = head = None

    def __init__(self, exact: bool) -> None:
        self.exact = exact
        self.model = torch.nn.Identity()

    def encode(self, poses: torch.Tensor) -> torch.Tensor:
        seen = se3.rotation(poses).mT.contiguous()
        return seen if self.exact else torch.ones_like(seen)

    def solve(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return b @ a.mT


class Posed(Frames):
    """Frames that are the poses of their cameras."""

    def __call__(self, sequence: torch.Tensor, frame: torch.Tensor) -> torch.Tensor:
        return torch.stack([self.poses[int(s)][int(f)] for s, f in zip(sequence, frame, strict=True)])


def test_maps_of_the_motion_alone_have_no_error_between_rooms(tiny_pose):
    held_out = rooms.open_rooms(tiny_pose, CPU)
    for frames in held_out.values():
        frames.__class__ = Posed
    found = rooms.between_rooms(Known(True), held_out, 70, 4, EVALUATION_SEED)
    assert found.keys() == {metric.key for metric in rooms.METRICS}
    for suffix in (*held_out, "_centred", "_turn_centred"):
        assert found[f"relative_map_error{suffix}"] < 1e-20 < 1e-4 < found[f"identity_relative_map_error{suffix}"]
    for suffix in held_out:  # less is left without what all frames share
        whole, centred = (found[f"identity_relative_map_error{suffix}{part}"] for part in ("", "_centred"))
        assert whole < centred
    assert found == rooms.between_rooms(Known(True), held_out, 70, 4, EVALUATION_SEED)
    constant = rooms.between_rooms(Known(False), held_out, 70, 4, EVALUATION_SEED)
    assert constant["identity_relative_map_error"] == 0 < constant["relative_map_error"]


class Numbered(Frames):
    """Frames that are their numbers."""

    def __call__(self, sequence: torch.Tensor, frame: torch.Tensor) -> torch.Tensor:
        return torch.stack((sequence, frame), dim=-1).float()[:, None].expand(-1, 8, 2)


def test_maps_between_rooms_are_solved_from_the_other_room(make, tiny_pose, monkeypatch):
    method, given, encoded = make().method, [], []
    monkeypatch.setattr(method, "encode", lambda x: encoded.append(x[:, 0]) or x)
    monkeypatch.setattr(method, "solve", lambda a, b: given.append((a, b)) or 2 * torch.eye(8).expand(len(a), 8, 8))
    frames = rooms.open_rooms(tiny_pose, CPU)[""]
    frames.__class__ = Numbered
    a, b, moved = rooms._moved(method, frames, 70, 4, EVALUATION_SEED)
    others = [torch.cat(part) for part in zip(*given, strict=True)]
    for view, other in zip((a, b), others, strict=True):
        assert torch.equal(view[:, 0, 0].int() ^ 1, other[:, 0, 0].int())  # the other room of the motion
        assert torch.equal(view[:, 0, 1], other[:, 0, 1])
    assert (b > a)[:, 0, 1].all() and torch.equal(moved, 2 * a)
    assert len(torch.cat(encoded).unique(dim=0)) == len(torch.cat(encoded)) < 4 * 70  # each frame is encoded once


def test_what_cannot_be_grouped(make):
    for changes, words in (
        ({"training": Optimisation(steps=2, batch_size=3)}, "cannot be cut into groups"),
        ({"shared": 0.25}, "does not come out even"),
        ({"shared": 0.0}, "niso-group needs groups"),
        ({"shared_clips": 5}, "must be a multiple of --rooms"),
        ({"group": 4}, "must be at most the number of --rooms"),
        ({"group": 1, "rooms": 1}, "--rooms must be at least 2"),
    ):
        with pytest.raises(InputError, match=words):
            make("niso-group", **changes)
    for changes, words in (
        ({"shared_motions": ()}, "must name at least one motion"),
        ({"shared": 1.5}, "shared must be at most 1"),
        ({"composition": -1.0}, "composition must not be negative"),
    ):
        with pytest.raises(ValueError, match=words):
            make(**changes)


def test_settings_of_clips_that_rooms_take_beside_footage_are_read(tiny_pose, tmp_path):
    of_rooms = {"clip_frames", "test_clips", "motions"}
    assert of_rooms | {"clips", "test_frames"} <= Pose.unread(tiny_pose, "niso", tmp_path).keys()
    unread = Pose.unread(tiny_pose, "niso-group", tmp_path).keys()
    assert not of_rooms & unread and {"clips", "test_frames"} <= unread


def test_settings_of_clips_that_are_not_taken_are_said(tiny_pose):
    unread = Pose.unread(tiny_pose, "niso", None)
    assert "pre-training takes none" in unread["shared_clips"] and "group" in unread
    assert not {"shared_clips", "rooms", "group", "shared"} & Pose.unread(tiny_pose, "niso-group", None).keys()
    assert {"shared", "rooms", "composition"} <= Pose.unread(tiny_pose, "vit", None).keys()
