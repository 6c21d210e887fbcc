"""Trajectories: composition, and errors against cases worked out by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from scipy.spatial import procrustes

from niso.geometry import se3
from niso.geometry import trajectories as trajectory
from tests.poses import random_poses

PUBLISHED_LINE = (0.034, 0.048, 0.069, 0.084, 0.098, 0.110)


def circle(count: int, dtype: torch.dtype = torch.float64) -> torch.Tensor:
    angle = 2 * math.pi * torch.arange(count, dtype=dtype) / count
    return torch.stack((angle.cos(), angle.sin(), torch.zeros_like(angle)), dim=-1)


def random_path(count: int = 15, seed: int = 0, dtype: torch.dtype = torch.float64) -> torch.Tensor:
    return torch.randn(count, 3, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def similarity(path: torch.Tensor, scale: float = 3.0, reflect: bool = False) -> torch.Tensor:
    motion = random_poses(1, torch.Generator().manual_seed(9), dtype=path.dtype)[0]
    mirror = torch.tensor([1.0, 1, -1 if reflect else 1], dtype=path.dtype)
    return scale * (path * mirror) @ se3.rotation(motion).mT + 5 * se3.translation(motion)


def ate(predicted: torch.Tensor, truth: torch.Tensor) -> torch.Tensor:
    """Of the paper's table: by the normalised one."""
    return trajectory.ate_normalised(predicted, truth) / math.sqrt(3 * truth.shape[-2])


def random_motions(count: int, generator: torch.Generator, size: float, dtype: torch.dtype) -> torch.Tensor:
    return se3.exp(size * torch.randn(count, 6, generator=generator, dtype=dtype))


def test_composition_and_relative_poses_are_inverse(dtype, tolerance, generator):
    motions = random_motions(150, generator, 0.1, dtype).view(3, 50, 4, 4)
    poses = trajectory.compose(motions)
    assert torch.equal(poses[:, 0], torch.eye(4, dtype=dtype).expand(3, 4, 4))
    torch.testing.assert_close(trajectory.relative_poses(poses), motions, atol=20 * tolerance, rtol=0)


def test_true_relative_poses_have_no_error(dtype, generator):
    motions, start = random_motions(80, generator, 0.1, dtype), random_poses(1, generator, dtype=dtype)
    poses = start @ trajectory.compose(motions)
    found = trajectory.errors(trajectory.relative_poses(poses), poses)
    limit = 1e-4 if dtype == torch.float32 else 1e-9
    assert max(found.ate, found.ate_normalised, found.ate_sim3, found.rotation_error_deg) < limit
    assert found.translation_angle_deg < 100 * limit
    assert 0.1 < found.constant_motion_ate_normalised <= 1
    assert found.constant_motion_ate == pytest.approx(found.constant_motion_ate_normalised / math.sqrt(3 * 81))


def test_subsampling_counts_frames_before_it_leaves_any_out():
    poses = torch.eye(4).repeat(250, 1, 1)
    poses[:, 0, 3] = torch.arange(250)
    for skip in trajectory.SKIPS:
        kept = trajectory.subsample(poses, skip)[:, 0, 3]
        assert kept.tolist() == list(range(0, 200, skip + 1))
    assert len(trajectory.subsample(poses[:30], 9)) == 3


def test_a_straight_line_against_a_full_circle():
    """The figures that several of the paper's baselines have: a full circle at every skip, one place a pair."""
    found = []
    for skip in trajectory.SKIPS:
        truth = circle(math.ceil(200 / (skip + 1)) - 1)
        found.append(round(float(ate(trajectory.straight_line(len(truth)), truth)), 3))
    assert tuple(found) == PUBLISHED_LINE


@pytest.mark.parametrize(("skip", "published"), list(zip(trajectory.SKIPS, PUBLISHED_LINE, strict=True)))
def test_a_straight_line_against_an_orbit_of_200_frames(skip, published):
    truth = circle(200)[:: skip + 1]
    assert float(ate(trajectory.straight_line(len(truth)), truth)) == pytest.approx(published, rel=0.025)


def test_line_and_circle_in_the_limit():
    """A line correlates with a circle by √3/π, which leaves √(1 − 3/π²) = 0.834 of it."""
    found = trajectory.ate_normalised(trajectory.straight_line(20_000), circle(20_000))
    assert float(found) == pytest.approx(math.sqrt(1 - 3 / math.pi**2), abs=1e-4)


def test_ate_by_hand(dtype):
    """A square's corners, predicted as twice over the same diagonal: a quarter of the correlation is missing.

    Truth (±1, ±1, 0), of norm √8; prediction ±(1, 1, 0) and 0, 0, of norm 2. The product has the one singular value 4,
    of unit norms 4/(2√8) = 1/√2; what remains is √(1 − 1/2), over √12 coordinates.
    """
    truth = torch.tensor([[1, 1, 0], [-1, 1, 0], [-1, -1, 0], [1, -1, 0]], dtype=dtype)
    predicted = torch.tensor([[1, 1, 0], [0, 0, 0], [-1, -1, 0], [0, 0, 0]], dtype=dtype)
    assert float(ate(predicted, truth)) == pytest.approx(math.sqrt(0.5 / 12), abs=1e-6)
    assert float(trajectory.ate_normalised(predicted, truth)) == pytest.approx(math.sqrt(0.5), abs=1e-6)
    # The best similarity maps (1, 1, 0) to itself: the other two corners are √2 away.
    assert float(trajectory.ate_sim3(predicted, truth)) == pytest.approx(1.0, abs=1e-6)


def test_errors_of_one_displaced_place():
    """Truth 0, 1, 2 … on a line and one place e aside of the middle: only e's own deviation from its mean remains."""
    truth = torch.arange(5.0)[:, None] * torch.tensor([1.0, 0, 0])
    predicted = truth.clone()
    predicted[2, 1] = 0.5
    # x: variance 10; y: (0.5 − 0.1)² + 4 · 0.1² = 0.2; scale 10/10.2, so that x is off by 0.2/10.2 and y stays.
    remaining = 10 * (0.2 / 10.2) ** 2 + 0.2 * (10 / 10.2) ** 2
    assert float(trajectory.ate_sim3(predicted, truth)) == pytest.approx(math.sqrt(remaining / 5), abs=1e-6)
    assert float(ate(predicted, truth)) == pytest.approx(math.sqrt(remaining / 10 / 15), abs=1e-6)


def test_ate_is_scipys_procrustes():
    for seed in range(5):
        predicted, truth = random_path(seed=seed), random_path(seed=seed + 100)
        disparity = procrustes(truth.numpy(), predicted.numpy())[2]
        assert float(ate(predicted, truth)) == pytest.approx(math.sqrt(disparity / 45), rel=1e-9)


def test_alignment_is_the_best_similarity():
    predicted, truth = random_path(seed=1), random_path(seed=2)
    best = float((trajectory.aligned(predicted, truth) - truth).norm())
    generator = torch.Generator().manual_seed(0)
    start = trajectory.aligned(predicted, truth)
    for _ in range(200):
        motion = random_motions(1, generator, 0.05, torch.float64)[0]
        scale = 1 + 0.05 * torch.randn(1, generator=generator, dtype=torch.float64)
        other = scale * start @ se3.rotation(motion).mT + se3.translation(motion)
        assert float((other - truth).norm()) >= best - 1e-12


@pytest.mark.parametrize("reflect", [False, True])
def test_similarities_do_not_count_and_reflections_only_once(reflect, dtype):
    path = random_path(dtype=dtype)
    moved = similarity(path, reflect=reflect)
    limit = 1e-5 if dtype == torch.float32 else 1e-12
    assert float(ate(moved, path)) < limit
    assert (float(trajectory.ate_sim3(moved, path)) < limit) is not reflect


def test_units(dtype):
    predicted, truth = random_path(seed=1, dtype=dtype), random_path(seed=2, dtype=dtype)
    assert float(trajectory.ate_sim3(predicted, 10 * truth)) == pytest.approx(
        10 * float(trajectory.ate_sim3(predicted, truth)), rel=1e-5
    )
    assert float(ate(predicted, 10 * truth)) == pytest.approx(float(ate(predicted, truth)), rel=1e-5)


def test_ceiling_is_a_camera_that_stands_still():
    truth = random_path(30)
    still = torch.full((30, 3), 7.0, dtype=torch.float64)
    assert float(ate(still, truth)) == pytest.approx(1 / math.sqrt(90))
    assert float(trajectory.ate_normalised(still, truth)) == pytest.approx(1)
    spread = (truth - truth.mean(0)).square().sum(-1).mean().sqrt()
    assert float(trajectory.ate_sim3(still, truth)) == pytest.approx(float(spread))
    assert float(trajectory.ate_normalised(random_path(30, seed=5), truth)) <= 1


def test_paths_in_batches():
    predicted = torch.stack([random_path(seed=s) for s in range(4)])
    truth = torch.stack([random_path(seed=s + 50) for s in range(4)])
    for metric in (trajectory.ate_normalised, trajectory.ate_sim3):
        single = torch.stack([metric(p, t) for p, t in zip(predicted, truth, strict=True)])
        torch.testing.assert_close(metric(predicted, truth), single)


def test_what_has_no_error_is_refused():
    path, still = random_path(), torch.ones(15, 3, dtype=torch.float64)
    with pytest.raises(ValueError, match="does not move"):
        trajectory.ate_normalised(path, still)
    with pytest.raises(ValueError, match="not finite"):
        trajectory.ate_sim3(path * torch.nan, path)
    with pytest.raises(ValueError, match="have 4 motions, not 2"):
        trajectory.errors(torch.eye(4).repeat(2, 1, 1), torch.eye(4).repeat(5, 1, 1))


def test_rotation_errors_are_angles_in_degrees(dtype):
    angles = torch.tensor([0.0, 1e-3, 30, 90, 179], dtype=dtype)
    twists = torch.zeros(5, 6, dtype=dtype)
    twists[:, 4] = angles.deg2rad()
    base = random_poses(5, torch.Generator().manual_seed(0), dtype=dtype)
    found = trajectory.rotation_errors(base @ se3.exp(twists), base)
    limit = {"atol": 2e-2, "rtol": 0} if dtype == torch.float32 else {"atol": 1e-6, "rtol": 0}
    torch.testing.assert_close(found, angles.double(), **limit)


def test_translation_angles_by_hand(dtype):
    identity = torch.eye(3, dtype=dtype).expand(5, 3, 3)
    truth = se3.pose(identity, torch.tensor([[1, 0, 0], [1, 0, 0], [1, 0, 0], [0, 0, 2], [0, 0, 0]], dtype=dtype))
    said = se3.pose(identity, torch.tensor([[5, 0, 0], [0, 3, 0], [-1, 0, 0], [0, 0, 0], [1, 0, 0]], dtype=dtype))
    found = trajectory.translation_angles(said, truth)
    np.testing.assert_allclose(found, [0, 90, 180, 90, np.nan])
    oblique = se3.pose(identity[0], torch.tensor([1.0, 1, 0], dtype=dtype))
    assert float(trajectory.translation_angles(oblique, truth[0])) == pytest.approx(45)


def test_pairs_of_a_camera_that_pauses_have_no_direction(dtype, generator):
    """They are left out of the mean angle."""
    motions = random_motions(6, generator, 0.1, dtype)
    motions[2, :3, 3] = 0
    predicted = motions.clone()
    predicted[2, :3, 3] = 1
    assert trajectory.errors(predicted, trajectory.compose(motions)).translation_angle_deg < 0.01
