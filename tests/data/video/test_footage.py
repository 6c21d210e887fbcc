"""What is found in the user's folders, and how it is split and thinned."""

from __future__ import annotations

import json
import os
import socket
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from scipy.spatial.transform import Rotation

from niso.data.video import footage
from niso.data.video.files import Video
from niso.data.video.footage import find_footage, thinned
from niso.data.video.preparation import Preparation, prepare
from niso.data.video.sequences import Sequence
from niso.errors import InputError
from tests.poses import random_poses

POSES = random_poses(6, torch.Generator().manual_seed(0), dtype=torch.float64)


def images(folder: Path, count: int = 6) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(count):
        Image.new("RGB", (8, 6)).save(folder / f"{number}.png")
    return folder


def nerfstudio(folder: Path) -> Path:
    images(folder / "images")
    frames = [
        {"file_path": f"images/{number}.png", "transform_matrix": (pose * torch.tensor([1, -1, -1, 1])).tolist()}
        for number, pose in enumerate(POSES)
    ]
    (folder / "transforms.json").write_text(json.dumps({"frames": frames}))
    return folder


def colmap(folder: Path, model: str, named: str = "images") -> Path:
    images(folder / named)
    place = folder / model
    place.mkdir(parents=True, exist_ok=True)
    (place / "cameras.txt").write_text("1 PINHOLE 8 6 5 5 4 3\n")
    lines = []
    for number, pose in enumerate(POSES):
        world_to_camera = np.linalg.inv(pose)
        quaternion = Rotation.from_matrix(world_to_camera[:3, :3]).as_quat(scalar_first=True)
        values = " ".join(map(repr, (*quaternion.tolist(), *world_to_camera[:3, 3].tolist())))
        lines += [f"{number} {values} 1 {number}.png", ""]
    (place / "images.txt").write_text("\n".join(lines) + "\n")
    return folder


def test_a_folder_of_everything(tmp_path):
    (tmp_path / "walk.mp4").touch()
    images(tmp_path / "frames")
    nerfstudio(tmp_path / "studio")
    colmap(tmp_path / "mapped", "sparse/0")
    images(tmp_path / "kitchen/second10")
    images(tmp_path / "kitchen/second9")
    (tmp_path / "kitchen/third.MOV").touch()
    (tmp_path / "notes.txt").touch()
    (tmp_path / ".hidden.mp4").touch()
    (tmp_path / "nothing/deep/deeper").mkdir(parents=True)
    found = {one.name: one.kind for one in find_footage(tmp_path)}
    assert found == {
        "walk": "video",
        "frames": "frames",
        "studio": "nerfstudio",
        "mapped": "colmap",
        "kitchen/second9": "frames",
        "kitchen/second10": "frames",
        "kitchen/third": "video",
    }
    assert list(found).index("kitchen/second9") < list(found).index("kitchen/second10")


@pytest.mark.parametrize("model", ["sparse/0", "sparse", "colmap/sparse/0", ""])
@pytest.mark.parametrize("named", ["images", ""])
def test_where_colmaps_models_lie(tmp_path, model, named):
    (one,) = find_footage(colmap(tmp_path / "mapped", model, named))
    sequence = one.open()
    assert one.posed and sequence.name == "mapped" and sequence.numbers == list(range(6))
    np.testing.assert_allclose(sequence.poses, POSES.numpy(), atol=1e-9)


@pytest.mark.parametrize("named", ["images", ""])
def test_a_sequence_may_be_called_colmap(tmp_path, named):
    colmap(tmp_path / "colmap", "sparse/0", named)
    nerfstudio(tmp_path / "studio")
    assert {one.name: one.kind for one in find_footage(tmp_path)} == {"colmap": "colmap", "studio": "nerfstudio"}
    images(tmp_path / "images")
    assert {one.name for one in find_footage(tmp_path)} == {"colmap", "studio", "images"}


def test_each_kind_is_opened(write_video, tmp_path):
    write_video(tmp_path / "walk.mp4")
    images(tmp_path / "frames")
    nerfstudio(tmp_path / "studio")
    found = {one.name: one for one in find_footage(tmp_path)}
    assert found["walk"].open(2) == Video("walk", tmp_path / "walk.mp4", 2)
    frames, studio = found["frames"].open(every=2), found["studio"].open(every=2)
    assert frames.poses is None and [path.stem for path in frames.images] == ["0", "2", "4"]
    assert studio.numbers == [0, 1, 2]
    np.testing.assert_allclose(studio.poses, POSES[::2].numpy(), atol=1e-9)
    for path, kind in ((tmp_path / "walk.mp4", "video"), (tmp_path / "frames", "frames")):
        (one,) = find_footage(path)
        assert (one.name, one.kind) == (path.stem, kind)


def test_a_model_that_is_not_text_is_refused_with_its_remedy(tmp_path):
    images(tmp_path / "mapped/images")
    (tmp_path / "mapped/sparse/0").mkdir(parents=True)
    (tmp_path / "mapped/sparse/0/images.bin").touch()
    found = find_footage(tmp_path)
    ((name, problem),) = footage.sequences(found)
    assert name == "mapped" and "colmap model_converter --output_type TXT" in problem


def test_thinning_keeps_gaps_and_problems():
    numbers, places = [0, 1, 2, 3, 6, 7, 8], list(range(7))
    sequence = Sequence(
        "a",
        [Path(str(place)) for place in places],
        numbers,
        np.arange(7.0)[:, None, None] * np.ones((7, 4, 4)),
        problems={2: "blurred", 3: "gone"},
    )
    half = thinned(sequence, 2)
    assert half.numbers == [0, 1, 3, 4] and [path.name for path in half.images] == ["0", "2", "4", "6"]
    assert half.poses[:, 0, 0].tolist() == [0, 2, 4, 6]
    assert half.problems == {1: "blurred"}
    assert thinned(sequence, 1) is sequence


def test_draws(tmp_path):
    for number in range(20):
        nerfstudio(tmp_path / f"posed{number}")
    images(tmp_path / "blind")
    found = find_footage(tmp_path)
    names = [one.name for one in found]
    drawn = footage.draw(found, 0.1)(names)
    assert len(drawn) == 2 and "blind" not in drawn
    assert drawn == footage.draw(found[::-1], 0.1)(names) != footage.draw(found, 0.1, seed=1)(names)
    assert footage.draw(found, 0.0)(names) == set()
    assert footage.draw(found, 0.1, ["blind", "posed3"])(names) == {"blind", "posed3"}
    with pytest.raises(InputError, match="no sequence 'blnd' to test on; did you mean blind"):
        footage.draw(found, 0.1, ["blnd"])


def test_only_what_could_be_prepared_is_drawn(tmp_path):
    """One of three refused: of the others, always one to train and one to test on."""
    for number in range(3):
        nerfstudio(tmp_path / f"posed{number}")
    found = find_footage(tmp_path)
    names = [one.name for one in found]
    for seed in range(10):
        draw = footage.draw(found, 0.1, seed=seed)
        for refused in names:
            drawn = draw([name for name in names if name != refused])
            assert len(drawn) == 1 and refused not in drawn
            assert drawn == draw(names) or refused in draw(names)


def test_what_holds_no_footage(tmp_path):
    with pytest.raises(InputError, match="nowhere does not exist"):
        find_footage(tmp_path / "nowhere")
    (tmp_path / "notes.txt").touch()
    with pytest.raises(InputError, match=r"no video files and no folders of frames .*\.mp4"):
        find_footage(tmp_path)
    with pytest.raises(InputError, match=r"notes\.txt is no video file \(\.avi .*\): save it as \.mp4"):
        find_footage(tmp_path / "notes.txt")
    images(tmp_path / "twice/walk")
    (tmp_path / "twice/walk.mp4").touch()
    with pytest.raises(InputError, match=r"twice/walk and \S*twice/walk\.mp4 are both the video walk"):
        find_footage(tmp_path / "twice")
    (tmp_path / "co3d/cup").mkdir(parents=True)
    (tmp_path / "co3d/cup/frame_annotations.jgz").touch()
    with pytest.raises(InputError, match="use `niso data prepare co3d`"):
        find_footage(tmp_path / "co3d")
    (tmp_path / "done").mkdir()
    (tmp_path / "done/parameters.json").touch()
    with pytest.raises(InputError, match="prepared already"):
        find_footage(tmp_path / "done")


def test_frames_of_one_number_are_refused(tmp_path):
    images(tmp_path / "walk")
    Image.new("RGB", (8, 6)).save(tmp_path / "walk" / "03.png")
    ((name, problem),) = footage.sequences(find_footage(tmp_path))
    assert name == "walk" and problem.endswith("have one frame number: rename or remove one of them")


def test_masks_below_frames_and_a_picture_among_videos_are_left_alone(tmp_path):
    images(tmp_path / "walk")
    images(tmp_path / "walk" / "masks")
    (walk,) = find_footage(tmp_path / "walk")
    assert len(walk.open(1).images) == 6
    Image.new("RGB", (8, 8)).save(tmp_path / "poster.png")
    images(tmp_path / "other")
    assert [video.name for video in find_footage(tmp_path)] == ["other", "walk"]


def test_figures_of_a_run_are_no_footage(tmp_path):
    images(tmp_path / "walk")
    for run in (tmp_path / "run", tmp_path / "runs" / "first"):
        images(run / "figures")
        for name in ("config.yaml", "run.json"):
            (run / name).touch()
    videos = find_footage(tmp_path)
    assert [video.name for video in videos] == ["walk"]
    assert not footage.overlooked(tmp_path, videos)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no pipes in folders")
def test_links_to_nothing_are_refused_and_pipes_are_left_out(write_video, tmp_path, monkeypatch):
    write_video(tmp_path / "walk.mp4")
    (tmp_path / "lost.mp4").symlink_to(tmp_path / "nowhere.mp4")
    (tmp_path / "lost.txt").symlink_to(tmp_path / "nowhere.txt")
    os.mkfifo(tmp_path / "pipe.mp4")
    (tmp_path / "linked.mp4").symlink_to(tmp_path / "pipe.mp4")
    monkeypatch.chdir(tmp_path)
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind("socket.mp4")  # of which a whole path may be too long
    videos = find_footage(tmp_path)
    assert [video.name for video in videos] == ["lost", "walk"]
    out = tmp_path / "out"
    done = prepare(footage.sequences(videos), out, 1, Preparation(size=16, min_frames=3))
    assert done.refused == {"lost": f"{tmp_path / 'lost.mp4'} is a link to a place that does not exist"}
    with pytest.raises(InputError, match=r"pipe\.mp4 is neither a file nor a folder: give a video file"):
        find_footage(tmp_path / "pipe.mp4")


def test_cameras_in_a_folder_that_cannot_be_read_are_not_passed_over(tmp_path, deny):
    images(tmp_path / "walk")
    (tmp_path / "walk/cameras").mkdir()
    videos = find_footage(tmp_path)
    deny(tmp_path / "walk/cameras")
    with pytest.raises(PermissionError, match="cameras"):
        footage.overlooked(tmp_path, videos)


def test_what_is_not_read_is_named(tmp_path):
    nerfstudio(tmp_path / "studio")
    (tmp_path / "studio/transforms_train.json").touch()
    images(tmp_path / "split/images")
    (tmp_path / "split/transforms_train.json").touch()
    (tmp_path / "split/groundtruth.txt").touch()
    images(colmap(tmp_path / "second", "sparse/1") / "masks")
    images(tmp_path / "cups/cup/images")
    images(tmp_path / "cups/bowl/masks/deep")
    images(tmp_path / "cups/bowl")
    images(tmp_path / ".cache/a/b/c")
    (tmp_path / ".cache/transforms_train.json").touch()
    for path in (
        "split/images/walk.mp4",
        "cups/a/b/walk.MP4",
        "studio/walk.mp4",
        "other.wmv",
        "read.mp4",
        "photo.heic",
    ):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).touch()
    first, *lines = footage.overlooked(tmp_path, find_footage(tmp_path))
    assert first == "pictures of other formats are passed over (1 .heic): save them as .png or .jpg"
    assert [line.partition(":")[0] for line in sorted(lines)] == [
        "cups/a/b/walk.MP4",
        "cups/cup/images",
        "other.wmv",
        "second/sparse/1/images.txt",
        "split/groundtruth.txt",
        "split/images/walk.mp4",
        "split/transforms_train.json",
    ]
    assert "down to CATEGORY/NAME, and not beside frames" in min(
        lines
    ) and "cameras are read from transforms.json" in max(lines)
    assert not footage.overlooked(tmp_path / "studio", find_footage(tmp_path / "studio"))
    (tmp_path / "walk.mp4").touch()
    assert not footage.overlooked(tmp_path / "walk.mp4", find_footage(tmp_path / "walk.mp4"))
