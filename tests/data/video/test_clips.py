"""Rendered clips: reproducible, posed exactly, with parallax and occlusion, and cameras that a hand could hold."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
import roma
import torch
from PIL import Image

from niso.data.photographs import photographs as read_photographs
from niso.data.video.clips import MOTIONS, clips, intrinsics_of, scene_and_path
from niso.errors import InputError
from niso.geometry import se3
from niso.geometry import trajectories as trajectory
from niso.geometry.raycast import mipmaps, rays, render

TEXTURES = mipmaps(torch.rand(8, 32, 32, 3, generator=torch.Generator().manual_seed(0)))


@pytest.fixture(scope="module")
def photographs(tmp_path_factory):
    """Reading those shipped with libraries takes seconds."""
    folder = tmp_path_factory.mktemp("photographs")
    for number in range(5):
        pixels = np.random.default_rng(number).integers(0, 256, (130, 140, 3), np.uint8)
        Image.fromarray(pixels).save(folder / f"{number}.png")
    return folder


def make(photographs, count=2, frames=3, size=24, **options):
    return clips(count, frames, size, photograph_dir=photographs, **options)


def test_shapes_and_ranges(photographs):
    found = make(photographs)
    for clip in found:
        assert clip.images.shape == (3, 3, 24, 24) and clip.images.dtype == torch.uint8
        assert clip.poses.shape == (3, 4, 4) and clip.poses.dtype == torch.float64
        assert clip.images.float().std() > 10
        assert torch.linalg.det(se3.rotation(clip.poses)) == pytest.approx(1.0)


def test_motions_come_in_turn_and_free_cameras_have_fields_of_view_of_their_own(photographs, monkeypatch):
    seen = list[float]()

    def watched(scene, textures, pose, intrinsics, height, width):
        seen.append(float(intrinsics[0]))
        return render(scene, textures, pose, intrinsics, height, width)

    monkeypatch.setattr("niso.data.video.clips.render", watched)
    plain, mixed = make(photographs), make(photographs, 4, motions=("orbit", "free"))
    assert torch.equal(plain[0].images, mixed[0].images) and not torch.equal(plain[1].poses, mixed[1].poses)
    focal = seen[6::3]  # of the first frames of the mixed clips
    assert focal[0] == focal[2] == intrinsics_of(24)[0].float() and focal[1] != focal[3]
    assert all(24 / 2 / np.tan(np.deg2rad(35)) <= length <= 24 / 2 / np.tan(np.deg2rad(20)) for length in focal[1::2])


def test_a_seed_makes_the_same_clips_whatever_their_number(photographs):
    two, three = make(photographs), make(photographs, 3)
    for one, other in zip(two, three, strict=False):
        assert torch.equal(one.images, other.images) and torch.equal(one.poses, other.poses)
    assert not torch.equal(two[0].poses, two[1].poses)


def test_other_seeds_and_parts_are_other_clips(photographs):
    base = make(photographs, 1)[0]
    for options in ({"seed": 1}, {"held_out": True}):
        other = make(photographs, 1, **options)[0]
        assert not torch.equal(base.poses, other.poses) and not torch.equal(base.images, other.images)


def test_a_field_of_view_changes_frames_alone(photographs):
    by_default, same, narrow = (
        make(photographs, fields_of_view=fields) for fields in (None, (65.0, 65.0), (30.0, 40.0))
    )
    for one, other, third in zip(by_default, same, narrow, strict=True):
        assert torch.equal(one.images, other.images) and not torch.equal(one.images, third.images)
        assert torch.equal(one.poses, other.poses) and torch.equal(one.poses, third.poses)


@pytest.mark.parametrize("motion", ["turn", "free"])
def test_the_field_of_view_is_the_cameras(motion, photographs):
    """A narrow view is the middle of a wide one, enlarged."""
    half = 180 / math.pi * math.atan(math.tan(math.radians(30)) / 2)  # half as wide at the same distance
    wide, narrow = (
        make(photographs, 1, 2, size, motions=[motion], fields_of_view=(field, field))[0].images.float()
        for size, field in ((96, 60.0), (48, 2 * half))
    )
    middle = wide[..., 24:72, 24:72]
    error, contrast = (narrow - middle).abs().mean(), middle.std()
    assert error < 0.2 * contrast


def test_what_cannot_be_made(photographs, tmp_path):
    for options in ({"count": 0}, {"frames": 0}, {"size": 0}, {"motions": ()}, {"rooms": 0}):
        with pytest.raises(ValueError, match="must be positive"):
            make(photographs, **options)
    for fields in ((0.0, 50.0), (50.0, 40.0), (50.0, 180.0), (math.nan, 50.0)):
        with pytest.raises(ValueError, match="ascending, between 0 and 180 degrees"):
            make(photographs, fields_of_view=fields)
    with pytest.raises(InputError, match="does not exist"):
        make(tmp_path / "nowhere")


@pytest.mark.parametrize("motion", MOTIONS)
def test_depth_and_poses_agree_between_frames(motion):
    """A point seen in one frame, carried by depth and poses to another, lies there on a surface or behind one."""
    size, intrinsics = 64, intrinsics_of(64).float()
    scene, poses = scene_and_path(motion, 20, 3, TEXTURES)
    poses = poses.float()
    first, later = (render(scene, TEXTURES, poses[k], intrinsics, size, size) for k in (0, 6))
    y, x = torch.meshgrid(torch.arange(size) + 0.5, torch.arange(size) + 0.5, indexing="ij")
    seen = torch.stack(((x - size / 2) / intrinsics[0], (y - size / 2) / intrinsics[1], torch.ones_like(x)), dim=-1)
    relative = se3.relative(poses[6], poses[0])
    points = (seen * first.depth[..., None]).reshape(-1, 3) @ se3.rotation(relative).mT + se3.translation(relative)
    places = points[:, :2] / points[:, 2:] * intrinsics[:2] + size / 2
    inside = (points[:, 2] > 0) & (places > 2).all(-1) & (places < size - 2).all(-1)
    assert inside.float().mean() > 0.3
    column, row = places[inside].long().T
    carried, there = points[inside, 2], later.depth[row, column]
    same = later.objects[row, column] == first.objects.flatten()[inside]
    agree = (carried - there).abs() < 0.05 * there
    assert agree[same].float().mean() > 0.9
    assert (carried < 0.95 * there).float().mean() < 0.02  # hidden perhaps, but not in front: but for edges
    if motion == "orbit":
        assert 0.005 < (~same).float().mean() < 0.5  # there is occlusion


def test_neighbouring_frames_are_alike_and_distant_ones_are_not(photographs):
    clip = make(photographs, 1, 13, 48)[0]
    images = torch.nn.functional.avg_pool2d(clip.images.float(), 4)
    near, far = ((images[gap:] - images[:-gap]).abs().mean() for gap in (1, 12))
    assert 1 < near < far


@pytest.mark.parametrize("path", [path for motion, path in MOTIONS.items() if motion != "turn"])
def test_paths_are_those_of_a_hand(path):
    moves, turns = [], []
    for seed in range(20):
        poses = path(60, np.random.default_rng(seed))
        motions = trajectory.relative_poses(poses)
        moves.append(se3.translation(motions).norm(dim=-1))
        turns.append(roma.rotmat_to_rotvec(se3.rotation(motions)).norm(dim=-1).rad2deg())
        assert turns[-1].max() < 12  # no jump
        down = se3.rotation(poses)[:, 2, 1]  # z of the camera's downward axis
        assert (down < -0.5).all()  # upright
        assert (se3.translation(poses)[:, 2] > 0.5).all()
        constant = trajectory.ate_normalised(trajectory.straight_line(60), se3.translation(poses))
        assert constant > 0.01
    move, turn = torch.cat(moves), torch.cat(turns)
    assert 0.01 < move.median() < 0.15 and 0.3 < turn.median() < 6


def test_rotation_tells_translation_on_orbits_alone():
    """How well a linear map of the direction of rotation gives that of translation."""
    angles = {}
    for motion, path in MOTIONS.items():
        motions = torch.cat([trajectory.relative_poses(path(30, np.random.default_rng(k))) for k in range(40)])
        motions = torch.cat([motions, se3.inverse(motions)])  # backwards in time too
        turns = torch.nn.functional.normalize(roma.rotmat_to_rotvec(se3.rotation(motions)), dim=-1)
        moves = torch.nn.functional.normalize(se3.translation(motions), dim=-1)
        told = turns @ torch.linalg.lstsq(turns, moves).solution
        angles[motion] = torch.cosine_similarity(told, moves, dim=-1).clamp(-1, 1).acos().mean().rad2deg()
    assert angles["orbit"] < 30 and angles["free"] > 70


def test_cameras_keep_clear_of_objects_and_walls():
    for seed, motion in enumerate(4 * tuple(MOTIONS)):
        scene, poses = scene_and_path(motion, 40, seed, TEXTURES)
        places = se3.translation(poses).float()
        room = scene.halves[0] - (places - scene.centres[0]).abs()
        assert (room > 0.2).all()
        for centre, axes, half, sphere in zip(*scene[:4], strict=True):
            if torch.equal(half, scene.halves[0]):
                continue
            local = (places - centre) @ axes
            outside = local.norm(dim=-1) - half[0] if sphere else (local.abs() - half).amax(-1)
            assert (outside > 0.25).all()
        assert len(scene.centres) > 6 and scene.spheres.any()


@pytest.mark.parametrize("motion", MOTIONS)
def test_rooms_differ_and_share_the_motion(photographs, motion):
    rooms, plain = make(photographs, 4, motions=(motion,), rooms=2), make(photographs, 2, motions=(motion,))
    motions = [se3.relative(clip.poses[:1].expand_as(clip.poses), clip.poses) for clip in rooms]
    assert not any(torch.equal(room.images, clip.images) for room in rooms for clip in plain)  # some of these validate
    torch.testing.assert_close(motions[0], motions[1], atol=1e-12, rtol=0)
    assert not torch.allclose(motions[0], motions[2], atol=1e-4)
    assert (rooms[0].images.float() - rooms[1].images.float()).abs().mean() > 10


def test_frames_of_a_turn_are_related_by_homographies():
    """Whatever the depth, a pixel's colour is found where the rotation alone takes its ray."""
    size, intrinsics = 48, intrinsics_of(48).float()
    scene, poses = scene_and_path("turn", 9, 3, TEXTURES, room=1)
    assert torch.equal(se3.translation(poses), se3.translation(poses)[:1].expand(9, 3))
    first, later = (
        render(scene, TEXTURES, pose, intrinsics, size, size) for pose in (poses[0].float(), poses[8].float())
    )
    turned = se3.rotation(se3.relative(poses[8], poses[0])).float()
    seen = rays(intrinsics, size, size) @ turned.mT
    places = (seen[:, :2] / seen[:, 2:] * intrinsics[:2] + size / 2) / (size / 2) - 1
    inside = (seen[:, 2] > 0) & (places.abs() < 0.95).all(-1)
    found = torch.nn.functional.grid_sample(later.colours[None], places[None, None], align_corners=False)[0, :, 0]
    expected = first.colours.flatten(1)
    assert inside.float().mean() > 0.3 and (places - rays(intrinsics, size, size)[:, :2]).abs().max() > 0.1
    unmoved = (later.colours.flatten(1) - expected)[:, inside].abs().mean()
    assert (found - expected)[:, inside].abs().mean() < 0.5 * unmoved


def test_held_out_clips_show_held_out_photographs(tmp_path):
    for number in range(10):
        Image.new("RGB", (160 + number, 160), "lime").save(tmp_path / f"{number}.png")
    kept, _ = read_photographs(tmp_path)
    trained = {Path(image.info["path"]) for image in kept}
    for number, file in enumerate(sorted(set(tmp_path.iterdir()) - trained)):
        Image.new("RGB", (160 + number, 160), "blue").save(file)
    for held_out, (shown, hidden) in ((False, (1, 2)), (True, (2, 1))):
        (clip,) = clips(1, 2, 16, held_out=held_out, photograph_dir=tmp_path)
        assert clip.images[:, shown].float().mean() > 20 > 1 > clip.images[:, hidden].float().mean()


def test_rooms_differ_and_show_the_motion_of_their_path(photographs):
    found = make(photographs, 6, rooms=3, motions=("orbit", "walk"))
    motions = [trajectory.relative_poses(clip.poses) for clip in found]
    for path in (0, 3):
        for room in (1, 2):
            torch.testing.assert_close(motions[path + room], motions[path])
    assert not torch.allclose(motions[0], motions[3])
    orbit, walk = (make(photographs, 1, rooms=3, motions=(motion,))[0] for motion in ("orbit", "walk"))
    assert torch.equal(orbit.poses, found[0].poses) and not torch.equal(walk.poses, found[0].poses)
    images = torch.stack([clip.images[0].flatten() for clip in found]).float()
    assert (torch.cdist(images, images, p=1) / images.shape[1] + 100 * torch.eye(6)).min() > 10
