"""Camera conventions: round trips, agreement on where points are seen, and what is refused."""

from __future__ import annotations

import pytest
import torch

from niso.errors import InputError
from niso.geometry import cameras, se3


@pytest.fixture
def poses(dtype, generator):
    return se3.random_poses(12, generator, scale=3.0, dtype=dtype)


ROUND_TRIPS = {
    "opencv": lambda p: cameras.from_opencv(cameras.to_opencv(p)),
    "opengl": lambda p: cameras.from_opengl(cameras.to_opengl(p)),
    "pytorch3d": lambda p: cameras.from_pytorch3d(*cameras.to_pytorch3d(p)),
    "colmap": lambda p: cameras.from_colmap(*cameras.to_colmap(p)),
    "all": lambda p: cameras.from_colmap(
        *cameras.to_colmap(
            cameras.from_pytorch3d(
                *cameras.to_pytorch3d(cameras.from_opengl(cameras.to_opengl(cameras.from_opencv(cameras.to_opencv(p)))))
            )
        )
    ),
}


@pytest.mark.parametrize("convention", ROUND_TRIPS)
def test_round_trips(convention, poses, dtype):
    limit = 5e-6 if dtype == torch.float32 else 1e-12  # translations are of length 5, a millionth of which is 5e-6
    torch.testing.assert_close(ROUND_TRIPS[convention](poses), poses, atol=limit, rtol=0)


def test_stored_cameras_round_trip_to_a_millionth(generator):
    """From each stored form to niso's and back, entry by entry."""
    w2c = se3.random_poses(12, generator, dtype=torch.float64)
    rotation, translation = se3.rotation(w2c), se3.translation(w2c)
    for mine, theirs in [
        (cameras.to_opencv(cameras.from_opencv(w2c)), w2c),
        (cameras.to_opengl(cameras.from_opengl(w2c)), w2c),
        (cameras.to_pytorch3d(cameras.from_pytorch3d(rotation, translation))[0], rotation),
        (cameras.to_pytorch3d(cameras.from_pytorch3d(rotation, translation))[1], translation),
    ]:
        torch.testing.assert_close(mine, theirs, atol=1e-6, rtol=0)
    qvec = torch.nn.functional.normalize(torch.randn(12, 4, generator=generator, dtype=torch.float64), dim=-1)
    qvec *= qvec[:, :1].sign()
    found = cameras.to_colmap(cameras.from_colmap(qvec, translation))
    torch.testing.assert_close(found.qvec, qvec, atol=1e-6, rtol=0)
    torch.testing.assert_close(found.tvec, translation, atol=1e-6, rtol=0)


def test_all_conventions_see_a_point_in_the_same_place(poses, tolerance, generator):
    """Right, down and forward of a world point, by the definition of each convention."""
    point = torch.randn(12, 3, generator=generator, dtype=poses.dtype)
    homogeneous = torch.cat((point, torch.ones_like(point[:, :1])), dim=-1)
    expected = (torch.linalg.inv(poses) @ homogeneous[..., None])[:, :3, 0]
    opencv = (cameras.to_opencv(poses) @ homogeneous[..., None])[:, :3, 0]
    rotation, translation = cameras.to_pytorch3d(poses)
    left_up_forward = (point[:, None] @ rotation)[:, 0] + translation
    right_up_backward = (torch.linalg.inv(cameras.to_opengl(poses)) @ homogeneous[..., None])[:, :3, 0]
    signs = torch.tensor([[1, 1, 1], [-1, -1, 1], [1, -1, -1]], dtype=poses.dtype)
    for found, sign in zip((opencv, left_up_forward, right_up_backward), signs, strict=True):
        torch.testing.assert_close(found * sign, expected, atol=10 * tolerance, rtol=0)
    assert torch.equal(se3.translation(cameras.to_opengl(poses)), se3.translation(poses))


def test_colmap_quaternions_are_scalar_first():
    """A quarter turn about z: (cos 45°, 0, 0, sin 45°)."""
    half = 0.5**0.5
    pose = cameras.from_colmap(torch.tensor([half, 0, 0, half]), torch.zeros(3))
    world_to_camera = torch.tensor([[0.0, -1, 0, 0], [1, 0, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]])
    torch.testing.assert_close(cameras.to_opencv(pose), world_to_camera)
    longer = cameras.from_colmap(torch.tensor([3.0, 0, 0, 3]), torch.zeros(3))
    torch.testing.assert_close(longer, pose)


BROKEN = {
    "reflection": (torch.diag(torch.tensor([1.0, 1, -1])), "camera 1 is a reflection"),
    "NaN": (torch.full((3, 3), torch.nan), "camera 1 is not finite"),
    "scaled": (1.1 * torch.eye(3), "camera 1 is not a rotation"),
    "zero": (torch.zeros(3, 3), "camera 1 is not a rotation"),
}


@pytest.mark.parametrize("kind", BROKEN)
def test_no_convention_takes_a_broken_camera(kind, dtype):
    matrix, words = BROKEN[kind]
    rotation = torch.stack((torch.eye(3), matrix)).to(dtype)
    pose = se3.pose(rotation, torch.zeros(2, 3, dtype=dtype))
    for call in (
        lambda: cameras.from_opencv(pose),
        lambda: cameras.from_opengl(pose),
        lambda: cameras.from_pytorch3d(rotation, torch.zeros(2, 3, dtype=dtype)),
    ):
        with pytest.raises(InputError, match=words):
            call()


def test_translations_and_quaternions_are_checked_too():
    identity = torch.eye(3)
    with pytest.raises(InputError, match="camera 0 is not finite"):
        cameras.from_pytorch3d(identity, torch.tensor([0, torch.inf, 0]))
    with pytest.raises(InputError, match="quaternion 0"):
        cameras.from_colmap(torch.zeros(4), torch.zeros(3))
    with pytest.raises(InputError, match="is not finite"):
        cameras.from_colmap(torch.full((4,), torch.nan), torch.zeros(3))


def test_several_problems_are_named_each(dtype):
    rotations = torch.eye(3, dtype=dtype).repeat(4, 1, 1)
    rotations[1] *= -1
    rotations[2, 0, 0] = torch.nan
    found = cameras.problems(rotations, torch.zeros(4, 3, dtype=dtype))
    assert sorted(found) == [1, 2] and "reflection" in found[1] and "finite" in found[2]
    assert cameras.problems(rotations[:0], torch.zeros(0, 3, dtype=dtype)) == {}


def test_rounded_rotations_become_exact():
    rotation = se3.rotation(se3.random_poses(5, torch.Generator().manual_seed(0), dtype=torch.float64))
    found = se3.rotation(cameras.checked((rotation * 1e4).round() / 1e4, torch.zeros(5, 3, dtype=torch.float64)))
    torch.testing.assert_close(found.mT @ found, torch.eye(3, dtype=torch.float64).expand(5, 3, 3), atol=1e-12, rtol=0)
    torch.testing.assert_close(found, rotation, atol=2e-4, rtol=0)


@pytest.mark.parametrize("style", ["ndc_isotropic", "ndc_norm_image_bounds"])
def test_ndc_intrinsics(style, dtype, tolerance):
    focal = torch.tensor([[2.4, 2.5], [1.0, 3.0]], dtype=dtype)
    principal = torch.tensor([[0.0, 0.0], [0.1, -0.2]], dtype=dtype)
    pixels = cameras.pixels_from_ndc(focal, principal, 240, 320, style)
    for found, expected in zip(cameras.ndc_from_pixels(pixels, 240, 320, style), (focal, principal), strict=True):
        torch.testing.assert_close(found, expected, atol=tolerance, rtol=tolerance)
    horizontal = 120 if style == "ndc_isotropic" else 160
    expected = torch.tensor([1.0 * horizontal, 360, 160 - 0.1 * horizontal, 120 + 0.2 * 120], dtype=dtype)
    torch.testing.assert_close(pixels[1], expected)
    assert pixels[0, 2:].tolist() == [160, 120]


def test_unknown_ndc_format():
    with pytest.raises(InputError, match="'screen' is not known"):
        cameras.pixels_from_ndc(torch.ones(2), torch.zeros(2), 2, 2, "screen")


def test_cropped_intrinsics_keep_the_rays(dtype):
    """The pixel (200, 100) of a 320×240 image lies at (160, 100) of the 240×240 square, at half of that in 120×120."""
    intrinsics = torch.tensor([300.0, 310, 150, 130], dtype=dtype)
    cropped = cameras.cropped(intrinsics, 240, 320, 120)

    def ray(k, x, y):
        return torch.stack(((x - k[2]) / k[0], (y - k[3]) / k[1]))

    torch.testing.assert_close(ray(cropped, 80, 50), ray(intrinsics, 200, 100))
