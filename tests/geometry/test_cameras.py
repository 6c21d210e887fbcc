"""Cameras of data sets: poses by definition, what is wrong with broken ones."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from niso.errors import InputError
from niso.geometry import cameras, se3
from niso.geometry.lenses import Lens, check_pinhole
from tests.poses import random_poses

F64 = torch.float64


def test_a_pose_takes_camera_coordinates_back_to_the_world(generator):
    rigid = random_poses(12, generator, scale=3.0, dtype=F64)
    rotations, translations = se3.rotation(rigid), se3.translation(rigid)
    point = torch.randn(12, 3, generator=generator, dtype=F64)
    seen = (rotations @ point[..., None])[..., 0] + translations
    poses, problems = cameras.from_world_to_camera(rotations, translations)
    assert problems == {} and poses.dtype == np.float64
    back = (torch.from_numpy(poses) @ torch.cat((seen, torch.ones(12, 1, dtype=F64)), -1)[..., None])[:, :3, 0]
    torch.testing.assert_close(back, point, atol=1e-12, rtol=0)
    assert cameras.from_world_to_camera(rotations[:0], translations[:0])[0].shape == (0, 4, 4)


BROKEN = {
    "reflection": (torch.diag(torch.tensor([1.0, 1, -1])), "its camera is a reflection"),
    "NaN": (torch.full((3, 3), torch.nan), "its camera is not finite"),
    "scaled": (1.1 * torch.eye(3), "its camera is not a rotation"),
    "zero": (torch.zeros(3, 3), "its camera is not a rotation"),
}


def test_broken_cameras_are_named_each_and_have_no_pose(dtype):
    rotations = torch.stack([torch.eye(3), *(matrix for matrix, _ in BROKEN.values()), torch.eye(3)]).to(dtype)
    translations = torch.zeros(6, 3, dtype=dtype)
    translations[5, 1] = torch.inf
    poses, problems = cameras.from_world_to_camera(rotations, translations)
    np.testing.assert_array_equal(poses[0], np.eye(4))
    assert np.isnan(poses[1:]).all()
    for number, words in enumerate([*(words for _, words in BROKEN.values()), "its camera is not finite"], start=1):
        assert words in problems.pop(number)
    assert problems == {}


def test_rounded_rotations_become_exact():
    rotation = se3.rotation(random_poses(5, torch.Generator().manual_seed(0), dtype=F64))
    poses, _ = cameras.from_world_to_camera((rotation * 1e4).round() / 1e4, torch.zeros(5, 3, dtype=F64))
    found = torch.from_numpy(poses)[:, :3, :3]
    torch.testing.assert_close(found.mT @ found, torch.eye(3, dtype=F64).expand(5, 3, 3), atol=1e-12, rtol=0)
    torch.testing.assert_close(found.mT, rotation, atol=2e-4, rtol=0)


def test_cameras_in_float32_become_exact_rotations(generator):
    rigid = random_poses(4, generator, scale=1000.0, dtype=torch.float32)
    poses, _ = cameras.from_world_to_camera(se3.rotation(rigid), se3.translation(rigid))
    rotations = poses[:, :3, :3]
    np.testing.assert_allclose(rotations.swapaxes(1, 2) @ rotations, np.broadcast_to(np.eye(3), (4, 3, 3)), atol=1e-14)


@pytest.mark.parametrize(
    ("distortion", "shift"),
    [
        ({"radial": (2.0, -4.0)}, "25%"),  # half way to the corner, where it is none
        ({"radial": (1.2, -2.4)}, None),
        ({"divided": (-0.5,)}, "33%"),
        ({"divided": (-2.0,)}, "inf%"),
        ({"radial": (0.5, 3.0), "divided": (0.5, 3.0)}, None),
    ],
)
def test_a_lens_is_judged_by_its_largest_shift_within_the_square(distortion, shift):
    lens = Lens("FULL_OPENCV", (0.5, 0.5), **distortion)
    if shift is None:
        check_pinhole(lens)
    else:
        with pytest.raises(InputError, match=f"its lens distorts by {shift}, and at most 20%"):
            check_pinhole(lens)
