"""Trajectories averaged over relative poses of frames that are one, two, … apart."""

import numpy as np
import pytest
import torch

from niso.data.video.scenes import orbit
from niso.geometry import se3
from niso.geometry import trajectories as trajectory
from niso.geometry.averaging import averaged


def motions(poses, most):
    return {apart: se3.relative(poses[:-apart], poses[apart:]) for apart in range(1, most + 1)}


@pytest.fixture(scope="module")
def poses():
    found = orbit(40, np.random.default_rng(0))
    return se3.relative(found[:1].expand_as(found), found)


def shaken(given, scale, generator):
    """Relative poses that are off in proportion to their distance."""
    return {
        apart: part @ se3.exp(scale * apart * torch.randn(len(part), 6, generator=generator, dtype=part.dtype))
        for apart, part in given.items()
    }


def error(found, poses):
    return float(trajectory.ate_normalised(se3.translation(found), se3.translation(poses)))


@pytest.mark.parametrize("most", [1, 2, 7, 39])
def test_exact_motions_give_the_exact_trajectory(poses, most):
    found = averaged({apart: part.float() for apart, part in motions(poses, most).items()})
    assert found.dtype == torch.float64
    torch.testing.assert_close(found, poses, atol=1e-5, rtol=0)


def test_neighbours_alone_are_composed(poses, generator):
    steps = shaken(motions(poses, 1), 0.05, generator)
    assert torch.equal(averaged(steps), trajectory.compose(steps[1]))
    assert torch.equal(averaged({1: steps[1], 5: steps[1][:0]}), trajectory.compose(steps[1]))
    assert averaged({1: steps[1][:0]}).shape == (1, 4, 4)


def test_averages_are_better_than_neighbours_and_ignore_what_is_far_off(poses, generator):
    draws = [shaken(motions(poses, 8), 0.02, generator) for _ in range(10)]
    by_neighbours = np.mean([error(trajectory.compose(steps[1]), poses) for steps in draws])
    assert np.mean([error(averaged(steps), poses) for steps in draws]) < 0.65 * by_neighbours
    steps = draws[0]
    for part in steps.values():
        wrong = torch.rand(len(part), generator=generator) < 0.1
        part[wrong] = se3.exp(2 * torch.randn(int(wrong.sum()), 6, generator=generator, dtype=part.dtype))
    assert error(averaged(steps), poses) < 0.1
    found = averaged(steps)
    torch.testing.assert_close(se3.inverse(found) @ found, torch.eye(4, dtype=found.dtype).expand_as(found))
    assert (torch.linalg.det(se3.rotation(found)) > 0).all()


@pytest.mark.parametrize("scale", [7.0, 1e-14, 1e14])
def test_the_scale_of_translations_makes_no_difference(poses, generator, scale):
    steps = shaken(motions(poses, 4), 0.02, generator)
    larger = {apart: se3.pose(se3.rotation(part), scale * se3.translation(part)) for apart, part in steps.items()}
    one, other = averaged(steps), averaged(larger)
    torch.testing.assert_close(se3.translation(one), se3.translation(other) / scale)


@pytest.mark.parametrize("most", [5, 8])
@pytest.mark.parametrize("scale", [0.0, 1e-3])
def test_one_neighbour_that_is_far_off_is_outvoted(poses, generator, most, scale):
    """Also where all others are exact, so that the median of the residuals is 0."""
    for wrong in (1, 17, 37):  # not at an end, around which there is no other way
        steps = shaken(motions(poses, most), scale, generator)
        steps[1][wrong] = steps[1][wrong] @ se3.exp(torch.ones(6, dtype=torch.float64))
        assert error(averaged(steps), poses) < 0.1 * error(trajectory.compose(steps[1]), poses)


def test_a_camera_that_stands_still_for_long_and_then_moves(poses, generator):
    still = torch.eye(4, dtype=torch.float64).expand(30, 4, 4)
    path = torch.cat([still, poses[:20]])
    steps = {
        apart: torch.cat([part[: 31 - apart], shaken({apart: part[31 - apart :]}, 0.01, generator)[apart]])
        for apart, part in motions(path, 3).items()
    }
    assert error(averaged(steps), path) < 0.2


def test_the_end_of_a_long_trajectory_is_as_good_as_its_beginning(generator):
    """Poses that contradict each other, of so many frames that what is solved for falls below the smallest number."""
    path = trajectory.compose(se3.exp(0.5 * torch.randn(3_000, 6, generator=generator, dtype=torch.float64)))
    steps = shaken(motions(path, 5), 0.2, generator)
    found = averaged(steps)
    assert found.shape == path.shape and torch.equal(found[0], torch.eye(4, dtype=torch.float64))
    off = [
        trajectory.rotation_errors(one, trajectory.relative_poses(path)).unflatten(0, (10, -1)).mean(1)
        for one in (trajectory.relative_poses(found), steps[1])
    ]
    assert (off[0] < off[1]).all()


def test_frames_further_apart_than_is_solved_for_at_once_change_nothing(generator):
    path = trajectory.compose(se3.exp(0.1 * torch.randn(1_400, 6, generator=generator, dtype=torch.float64)))
    steps = motions(path, 2)
    far = steps | {1150: se3.inverse(path[:-1150]) @ path[1150:]}
    torch.testing.assert_close(averaged(far), averaged(steps))


def test_neighbours_are_needed_and_numbers(poses):
    steps = motions(poses, 3)
    with pytest.raises(ValueError, match="between neighbours are needed"):
        averaged({2: steps[2], 3: steps[3]})
    steps[2][0, 0, 0] = torch.nan
    with pytest.raises(ValueError, match="not finite"):
        averaged(steps)
