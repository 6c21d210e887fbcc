"""The user's own footage: COLMAP's text models, nerfstudio's transforms.json, and plain folders."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest
import torch
from PIL import Image
from scipy.spatial.transform import Rotation

from niso.data.video.posed_folders import colmap, frame_folder, nerfstudio
from niso.errors import InputError
from tests.poses import random_poses

POSES = random_poses(12, torch.Generator().manual_seed(0), dtype=torch.float64)
OPENGL = torch.tensor([1, -1, -1, 1])  # the camera's y and z axes are turned


def images(folder, count=12):
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(count):
        Image.new("RGB", (40, 30), (10 * number, 0, 0)).save(folder / f"frame{number}.png")  # frame10 before frame2
    return folder


def write_colmap(folder, numbers=range(12), camera="1 OPENCV 40 30 50 51 20 15 0.1 0 0 0", change=lambda lines: None):
    folder.mkdir(exist_ok=True)
    (folder / "cameras.txt").write_text(f"# Camera list\n{camera}\n")
    lines = ["# Image list", "#   IMAGE_ID, QW, QX, QY, QZ, TX, TY, TZ, CAMERA_ID, NAME"]
    for identity, number in enumerate(reversed(numbers)):
        world_to_camera = np.linalg.inv(POSES[number])
        quaternion = Rotation.from_matrix(world_to_camera[:3, :3]).as_quat(scalar_first=True)
        values = " ".join(map(repr, (*quaternion.tolist(), *world_to_camera[:3, 3].tolist())))
        lines += [f"{identity + 1} {values} 1 frame{number}.png", "" if number % 2 else "1.0 2.0 -1 3.0 4.0 7"]
    change(lines)
    (folder / "images.txt").write_text("\n".join(lines) + "\n")
    return folder


def write_nerfstudio(folder, numbers=range(12), **facts):
    frames = [
        {"file_path": f"images/frame{number}.png", "transform_matrix": (POSES[number] * OPENGL).tolist()}
        for number in reversed(numbers)
    ]
    content = {"fl_x": 50.0, "fl_y": 51.0, "cx": 20.0, "cy": 15.0, "w": 40, "h": 30, "frames": frames} | facts
    (folder / "transforms.json").write_text(json.dumps(content))
    return folder


def test_a_plain_folder_is_sorted_naturally(tmp_path):
    found = frame_folder(images(tmp_path / "walk"))
    assert found.name == "walk" and found.poses is None
    assert [path.stem for path in found.images] == [f"frame{number}" for number in range(12)]
    with pytest.raises(InputError, match="holds no images"):
        (tmp_path / "empty").mkdir()
        frame_folder(tmp_path / "empty")
    (tmp_path / "empty" / "walk.MP4").touch()
    with pytest.raises(InputError, match=r"holds no images, but videos, such as walk.MP4: give one of these"):
        frame_folder(tmp_path / "empty")
    with pytest.raises(InputError, match="is not a folder"):
        frame_folder(tmp_path / "nowhere")


@pytest.mark.parametrize(
    "names",
    [["0", "0.3", "0.6", "1", "1.2"], ["img", "img1", "img2", "img10"], ["1.9", "1.10", "1.11"], ["1.05", "1.50"]],
)
def test_a_plain_folder_is_in_the_order_of_its_numbers(tmp_path, names):
    for name in reversed(names):
        Image.new("RGB", (4, 3)).save(tmp_path / f"{name}.png")
    assert [path.stem for path in frame_folder(tmp_path).images] == names


def test_times_whose_order_is_not_clear_are_refused(tmp_path):
    for name in ("1.25", "1.5", "1.75"):
        Image.new("RGB", (4, 3)).save(tmp_path / f"{name}.png")
    with pytest.raises(InputError, match=r"decimal numbers of 1 to 2 digits after the point.*give all as many digits"):
        frame_folder(tmp_path)


def test_colmap_and_nerfstudio_give_the_same_poses(tmp_path):
    folder = images(tmp_path / "images")
    for found in (colmap(write_colmap(tmp_path / "sparse"), folder), nerfstudio(write_nerfstudio(tmp_path))):
        np.testing.assert_allclose(found.poses, POSES.numpy(), atol=1e-9)
        assert found.numbers == list(range(12)) and found.problems == {}
        assert [path.stem for path in found.images] == [f"frame{number}" for number in range(12)]
        assert all(path.is_file() for path in found.images)


def test_images_without_a_camera_are_gaps(tmp_path):
    folder = images(tmp_path / "images")
    kept = [0, 1, 2, 5, 6, 11]
    for found in (
        colmap(write_colmap(tmp_path / "sparse", kept), folder),
        nerfstudio(write_nerfstudio(tmp_path, kept)),
    ):
        assert found.numbers == kept
        np.testing.assert_allclose(found.poses, POSES[kept].numpy(), atol=1e-9)


def test_images_that_are_missing_keep_their_place(tmp_path):
    folder = images(tmp_path / "images")
    (folder / "frame3.png").unlink()
    for found in (colmap(write_colmap(tmp_path / "sparse"), folder), nerfstudio(write_nerfstudio(tmp_path))):
        assert found.numbers == list(range(12)) and not found.images[3].exists()


LENSES = {  # COLMAP's line, nerfstudio's facts, and why it is refused
    "SIMPLE_PINHOLE 40 30 50 20 15": ({"camera_model": "SIMPLE_PINHOLE"}, ""),
    "PINHOLE 40 30 50 51 20 15": ({"camera_model": None}, ""),
    "SIMPLE_RADIAL 40 30 50 20 15 0.1": ({"camera_model": "SIMPLE_RADIAL", "k1": 0.1}, ""),
    "OPENCV 40 30 50 51 20 15 -0.3 0.1 0 0": ({"k1": -0.3, "k2": 0.1}, ""),
    "OPENCV 40 30 20 20 20 15 -0.3 0 0 0": ({"fl_x": 20, "fl_y": 20, "k1": -0.3}, "distorts by 34%"),
    "OPENCV 40 30 50 50 20 15 0 0 0.2 0": ({"fl_x": 50, "fl_y": 50, "p1": 0.2}, "distorts by 25%"),
    "OPENCV 40 30 50 20 20 15 -0.35 0 0 0": ({"fl_y": 20, "k1": -0.35}, "distorts by 23%"),
    "OPENCV 40 30 20 50 20 15 -0.35 0 0 0": ({"fl_x": 20, "k1": -0.35}, "distorts by 23%"),
    "FULL_OPENCV 40 30 20 20 20 15 0 0 0 0 0.6 0 0 0": ({"fl_x": 20, "fl_y": 20, "k3": 0.6}, "distorts by 85%"),
    "PINHOLE 40 30 -50 51 20 15": ({"fl_x": -50}, "its focal length .* is not positive"),
    "OPENCV_FISHEYE 40 30 50 51 20 15 0 0 0 0": (
        {"camera_model": "OPENCV_FISHEYE"}, "its lens OPENCV_FISHEYE is not a pinhole .*: undistort the images"
    ),
}  # fmt: skip


@pytest.mark.parametrize(("camera", "facts", "words"), [(camera, *rest) for camera, rest in LENSES.items()])
def test_colmap_and_nerfstudio_take_the_same_lenses(tmp_path, camera, facts, words):
    folder = images(tmp_path / "images")
    readers = (
        lambda: colmap(write_colmap(tmp_path / "sparse", camera=f"1 {camera}"), folder),
        lambda: nerfstudio(write_nerfstudio(tmp_path, **facts)),
    )
    for read in readers:
        if not words:
            assert len(read().images) == 12
            continue
        with pytest.raises(InputError, match=words) as error:
            read()
        assert ".txt" in str(error.value) or "transforms.json" in str(error.value)


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        ({"is_fisheye": True}, "its lens fisheye is not a pinhole"),
        ({"camera_model": "EQUIRECTANGULAR"}, "its lens EQUIRECTANGULAR is not a pinhole"),
        ({"fl_x": None, "fl_y": None, "k1": 0.1}, "its focal length or the images' size is not known"),
        ({"k1": "much"}, "cannot read cameras from"),
    ],
)
def test_other_lenses_of_transforms_are_refused(tmp_path, facts, words):
    images(tmp_path / "images")
    with pytest.raises(InputError, match=words):
        nerfstudio(write_nerfstudio(tmp_path, **facts))


def test_a_single_frame_with_another_lens_is_refused(tmp_path):
    images(tmp_path / "images")
    content = json.loads((write_nerfstudio(tmp_path) / "transforms.json").read_text())
    content["frames"][3]["camera_model"] = "OPENCV_FISHEYE"
    (tmp_path / "transforms.json").write_text(json.dumps(content))
    with pytest.raises(InputError, match="OPENCV_FISHEYE"):
        nerfstudio(tmp_path)


def edit(place, old, new):
    def change(lines):
        fields = lines[place].split()
        fields[old] = new
        lines[place] = " ".join(fields)

    return change


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"camera": "1 OPENCV_FISHEYE 40 30 50 51 20 15 0 0 0 0"}, "its lens OPENCV_FISHEYE is not .*undistort"),
        ({"camera": "1 PINHOLE 40 30 50"}, r"cameras\.txt, line 2: it is not a camera"),
        ({"change": edit(2, 8, "9")}, r"images\.txt, line 3: it is not an image"),
        ({"change": edit(4, 3, "north")}, r"images\.txt, line 5: it is not an image"),
        ({"change": edit(4, 9, "frame11.png")}, "image frame11.png comes twice"),
        ({"change": lambda lines: lines.insert(2, "")}, "the line of points, .*, is missing before it"),
        ({"numbers": []}, "one size .there are none"),
    ],
)
def test_colmap_files_that_are_not(tmp_path, options, words):
    folder = images(tmp_path / "images")
    with pytest.raises(InputError, match=words):
        colmap(write_colmap(tmp_path / "sparse", **options), folder)


def test_colmap_without_a_model(tmp_path):
    with pytest.raises(InputError, match=r"cannot read .*cameras\.txt .*text form"):
        colmap(tmp_path, images(tmp_path / "images"))


def test_colmap_cameras_that_no_image_uses(tmp_path):
    cameras = "1 PINHOLE 40 30 50 51 20 15\n2 OPENCV_FISHEYE 60 30 50 51 20 15 0 0 0 0"
    assert len(colmap(write_colmap(tmp_path / "sparse", camera=cameras), images(tmp_path / "images")).images) == 12


def test_colmap_cameras_of_two_sizes(tmp_path):
    folder = write_colmap(
        tmp_path / "sparse", camera="1 PINHOLE 40 30 50 51 20 15\n2 PINHOLE 30 40 50 51 20 15", change=edit(2, 8, "2")
    )
    with pytest.raises(InputError, match=r"must be of one size .40×30, 30×40"):
        colmap(folder, images(tmp_path / "images"))


def test_broken_cameras_are_problems(tmp_path):
    folder = images(tmp_path / "images")

    def zero(lines):
        fields = lines[2].split()
        fields[1:5] = ["0"] * 4
        lines[2] = " ".join(fields)

    found = colmap(write_colmap(tmp_path / "sparse", change=zero), folder)
    assert found.problems == {11: "its camera is not finite"} and np.isnan(found.poses[11]).all()
    write_nerfstudio(tmp_path)
    content = json.loads((tmp_path / "transforms.json").read_text())
    content["frames"][0]["transform_matrix"][0] = [-x for x in content["frames"][0]["transform_matrix"][0]]
    (tmp_path / "transforms.json").write_text(json.dumps(content))
    assert list(nerfstudio(tmp_path).problems.items()) == [(11, "its camera is a reflection (determinant −1)")]


def test_blender_states_an_angle_in_place_of_a_focal_length(tmp_path):
    images(tmp_path / "images")
    blender = {"fl_x": None, "fl_y": None, "w": None, "h": None, "camera_angle_x": 0.7, "camera_angle_y": 0.7}
    assert len(nerfstudio(write_nerfstudio(tmp_path, **blender, k1=0.1)).images) == 12
    with pytest.raises(InputError, match="distorts by"):
        nerfstudio(write_nerfstudio(tmp_path, **blender, k1=1.5))


MATRIX = np.eye(4).tolist()


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("[]", 'it has no list of "frames"'),
        ("{", "Expecting property name"),
        ('{"frames": []}', 'it has no list of "frames", or an empty one'),
        ('{"frames": [1]}', 'frame 0 has no "file_path"'),
        ('{"frames": [{"transform_matrix": []}]}', 'frame 0 has no "file_path"'),
        ('{"frames": [{"file_path": "a.png"}]}', 'the "transform_matrix" of a.png is missing'),
        ('{"frames": [{"file_path": "a.png", "transform_matrix": [[1, 0], [0, 1]]}]}', "a.png is missing, or not 4×4"),
        ('{"frames": [{"file_path": "a.png", "transform_matrix": [[1], [0, 1]]}]}', "a.png is missing, or not 4×4"),
        (
            json.dumps({"w": "wide", "h": 9, "frames": [{"file_path": "a.png", "transform_matrix": MATRIX}]}),
            "the lens or the image size of a.png is not given in numbers",
        ),
    ],
)
def test_nerfstudio_files_that_are_not(tmp_path, content, words):
    (tmp_path / "transforms.json").write_text(content)
    with pytest.raises(InputError, match=r"cannot read cameras from .*transforms\.json") as error:
        nerfstudio(tmp_path)
    assert words in str(error.value)


def test_transposed_matrices_are_refused(tmp_path):
    images(tmp_path / "images")
    path = write_nerfstudio(tmp_path) / "transforms.json"
    content = json.loads(path.read_text())
    for frame in content["frames"]:
        frame["transform_matrix"] = np.transpose(frame["transform_matrix"]).tolist()
    path.write_text(json.dumps(content))
    with pytest.raises(InputError, match=r"the last row of the matrix of .* is not 0, 0, 0, 1: it may be transposed"):
        nerfstudio(tmp_path)


def test_frames_of_two_folders_are_no_neighbours(tmp_path):
    folder = images(tmp_path / "images")
    model = write_colmap(tmp_path / "sparse")
    path = write_nerfstudio(tmp_path) / "transforms.json"
    for file in (path, model / "images.txt"):
        text = file.read_text()
        for number in range(12):
            text = re.sub(rf"(?<=[/ ])frame{number}\.png", f"{'ab'[number > 7]}/frame{number}.png", text)
        file.write_text(text)
    for number in range(12):
        place = folder / "ab"[number > 7] / f"frame{number}.png"
        place.parent.mkdir(exist_ok=True)
        (folder / f"frame{number}.png").rename(place)
    for found in (colmap(model, folder), nerfstudio(tmp_path)):
        np.testing.assert_allclose(found.poses, POSES.numpy(), atol=1e-9)
        assert found.numbers == [*range(8), *range(9, 13)]


def renamed(folder, names):
    """Readers of frames of these names, in the order of time, by COLMAP and by nerfstudio."""
    numbers = range(len(names))
    model, path = write_colmap(folder / "sparse", numbers), write_nerfstudio(folder, numbers) / "transforms.json"
    for file in (path, model / "images.txt"):
        text = file.read_text()
        for number, name in enumerate(names):
            text = text.replace(f"frame{number}.png", name)
        file.write_text(text)
    (folder / "images").mkdir()
    for name in names:
        Image.new("RGB", (40, 30)).save(folder / "images" / name)
    return lambda: colmap(model, folder / "images"), lambda: nerfstudio(folder)


@pytest.mark.parametrize("names", [["a.jpg", "a-2.jpg"], ["walk.png", "walk (2).png", "walk (10).png"]])
def test_names_are_in_order_without_their_extensions(tmp_path, names):
    for read in renamed(tmp_path, names):
        assert [path.name for path in read().images] == names and read().numbers == list(range(len(names)))
        np.testing.assert_allclose(read().poses, POSES[: len(names)].numpy(), atol=1e-9)


def test_masks_of_another_extension_beside_frames_are_no_frames(tmp_path):
    readers = renamed(tmp_path, ["000.png", "001.png", "003.png"])
    for name in ("000.jpg", "001.jpg", "002.jpg", "003.jpg"):
        Image.new("RGB", (40, 30)).save(tmp_path / "images" / name)
    for read in readers:
        assert read().numbers == [0, 1, 3] and {path.suffix for path in read().images} == {".png"}


def test_two_frames_of_one_number_are_refused(tmp_path):
    for read in renamed(tmp_path, ["1.png", "01.png", "2.png"]):
        with pytest.raises(InputError, match=r"01\.png and 1\.png have one frame number: rename or remove one of them"):
            read()


def test_files_with_a_byte_order_mark_are_read(tmp_path):
    folder = images(tmp_path / "images")
    model, path = write_colmap(tmp_path / "sparse"), write_nerfstudio(tmp_path) / "transforms.json"
    for file in (path, model / "images.txt", model / "cameras.txt"):
        file.write_text(file.read_text(), encoding="utf-8-sig")
    assert colmap(model, folder).numbers == nerfstudio(tmp_path).numbers == list(range(12))


def test_colmap_images_without_their_lines_of_points(tmp_path):
    folder = images(tmp_path / "images")
    model = write_colmap(tmp_path / "sparse")
    rows = [line for line in (model / "images.txt").read_text().splitlines() if "frame" in line]
    (model / "images.txt").write_text("\n".join(rows))
    with pytest.raises(InputError, match=r"images.txt, line 2: the line of points, .*, is missing before it"):
        colmap(model, folder)


def test_nerfstudio_names_an_image_once(tmp_path):
    images(tmp_path / "images")
    with pytest.raises(InputError, match=r"names frame3\.png twice"):
        nerfstudio(write_nerfstudio(tmp_path, [1, 3, 3, 4]))
    path = write_nerfstudio(tmp_path, [1, 3, 4]) / "transforms.json"
    path.write_text(path.read_text().replace("images/frame4", "./images/../images/frame3"))
    with pytest.raises(InputError, match=r"names frame3\.png twice"):
        nerfstudio(path)
    path.write_text(path.read_text().replace("images/frame1", "\\u0000/frame1"))
    with pytest.raises(InputError, match="cannot read cameras"):
        nerfstudio(path)
    with pytest.raises(InputError, match="cannot read cameras"):
        nerfstudio(tmp_path / "nowhere")


def test_images_that_are_not_those_of_the_cameras_are_refused(tmp_path):
    images((folder := write_nerfstudio(tmp_path)) / "images")
    first, *_ = list(nerfstudio(folder).frames(8))
    assert first.size == (30, 40)
    for path in (folder / "images").iterdir():
        with Image.open(path) as image:
            turned = image.rotate(90, expand=True)
        turned.save(path)
    with pytest.raises(InputError, match="its frames have 30×40 pixels and its cameras are of 40×30"):
        list(nerfstudio(folder).frames(8))
