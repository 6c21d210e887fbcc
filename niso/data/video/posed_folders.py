"""The user's own footage: folders of frames, with cameras by COLMAP or nerfstudio, or with none."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import roma
import torch

from niso.data.photographs import EXTENSIONS
from niso.data.video.sequences import Sequence, natural
from niso.errors import InputError
from niso.geometry.cameras import from_world_to_camera

_FOCAL_LENGTHS = {
    "SIMPLE_PINHOLE": 1,
    "PINHOLE": 2,
    "SIMPLE_RADIAL": 1,
    "RADIAL": 1,
    "OPENCV": 2,
    "FULL_OPENCV": 2,
}
"""COLMAP's perspective models; their distortion is ignored."""


def frame_folder(folder: Path, name: str | None = None, split: str = "train") -> Sequence:
    """A folder of frames without cameras, in the natural order of their names (frame2 before frame10).

    Raises:
        InputError: the folder is missing or has no images.
    """
    images = sorted(_images(folder), key=lambda path: natural(path.name))
    return Sequence(name or folder.resolve().name, images, list(range(len(images))), split=split)


def colmap(model: Path, images: Path, name: str | None = None, split: str = "train") -> Sequence:
    """A video whose cameras COLMAP found, from its text model.

    Images that were not registered count as missing frames: between those that were there is a gap.

    Args:
        model: folder with images.txt and cameras.txt; `colmap model_converter --output_type TXT` writes them.
        images: the folder of all images, which images.txt names relative to it.

    Raises:
        InputError: a file is missing or not COLMAP's, a camera model is not a perspective one, images are of mixed
            sizes, or there are none.
    """
    known = {path.relative_to(images).as_posix(): path for path in _images(images)}
    cameras = _colmap_cameras(model / "cameras.txt")
    extrinsics, intrinsics, sizes = dict[str, list[float]](), dict[str, list[float]](), set[tuple[int, int]]()
    for line, fields in _colmap_images(model / "images.txt"):
        try:
            _, *values, camera, file = fields
            extrinsics_of_file = [float(value) for value in values]
            size, focal = cameras[camera]
            if len(values) != 7:
                raise ValueError
        except (KeyError, ValueError) as error:
            raise InputError(f"{model / 'images.txt'}, line {line}: it is not an image of COLMAP's") from error
        if file in extrinsics:
            raise InputError(f"{model / 'images.txt'}, line {line}: image {file} comes twice")
        extrinsics[file], intrinsics[file] = extrinsics_of_file, focal
        sizes.add(size)
        known.setdefault(file, images / file)
    if len(sizes) != 1:
        found = ", ".join(f"{width}×{height}" for height, width in sorted(sizes)) or "there are none"
        raise InputError(f"the images of {model} must be of one size ({found})")
    files = sorted(known, key=natural)
    numbers = [number for number, file in enumerate(files) if file in extrinsics]
    registered = [files[number] for number in numbers]
    seven = torch.tensor([extrinsics[file] for file in registered], dtype=torch.float64)
    unit = seven[:, :4] / seven[:, :4].norm(dim=-1, keepdim=True)  # a quaternion 0 becomes NaN, which is named
    poses, problems = from_world_to_camera(roma.unitquat_to_rotmat(roma.quat_wxyz_to_xyzw(unit)), seven[:, 4:])
    return Sequence(
        name or images.resolve().name,
        [known[file] for file in registered],
        numbers,
        poses,
        np.array([intrinsics[file] for file in registered]),
        split,
        problems,
        sizes.pop(),
    )


def nerfstudio(path: Path, name: str | None = None, split: str = "train") -> Sequence:
    """A video with cameras in nerfstudio's transforms.json (Instant NGP's and Blender's too), in the order of names.

    Other images in the same folders count as missing frames, as those that found no camera do.

    Args:
        path: the file, or the folder that holds it. Images are named relative to that folder; distortion is ignored.

    Raises:
        InputError: the file is missing or not nerfstudio's, or names an image twice.
    """
    path = path / "transforms.json" if path.is_dir() else path
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        named = [(_with_extension(path.parent / frame["file_path"]), frame) for frame in content["frames"]]
        named.sort(key=lambda pair: natural(pair[0].as_posix()))
        images, frames = [image for image, _ in named], [frame for _, frame in named]
        matrices = torch.tensor([frame["transform_matrix"] for frame in frames], dtype=torch.float64)
        intrinsics = [_nerfstudio_intrinsics({**content, **frame}) for frame in frames]
        if matrices.shape != (len(frames), 4, 4) or not frames:
            raise ValueError("its matrices are not 4×4, or there are none")
    except (OSError, ValueError, KeyError, TypeError) as error:
        problem = f"{type(error).__name__}: {error}"
        raise InputError(f"cannot read cameras from {path} ({problem}): give nerfstudio's transforms.json") from error
    if len(set(images)) < len(images):
        twice = next(image for image in images if images.count(image) > 1)
        raise InputError(f"{path} names {twice.name} twice")
    # OpenGL's camera-to-world has y up and z backwards: its inverse, with those rows turned, is world-to-camera.
    turned = (matrices[:, :3, :3] * torch.tensor([1.0, -1.0, -1.0], dtype=torch.float64)).mT
    poses, problems = from_world_to_camera(turned, -(turned @ matrices[:, :3, 3:])[..., 0])
    known = np.array(intrinsics, np.float64) if all(found is not None for found in intrinsics) else None
    there = {found for folder in {image.parent for image in images} if folder.is_dir() for found in _images(folder)}
    order = sorted(there.union(images), key=lambda image: natural(image.as_posix()))
    places = {image: number for number, image in enumerate(order)}
    numbers = [places[image] for image in images]
    return Sequence(name or path.resolve().parent.name, images, numbers, poses, known, split, problems)


def _images(folder: Path) -> list[Path]:
    if not folder.is_dir():
        raise InputError(f"{folder} is not a folder: give one that holds frames")
    found = [path for path in folder.rglob("*") if path.suffix.lower() in EXTENSIONS and path.is_file()]
    if not found:
        raise InputError(f"{folder} holds no images ({', '.join(sorted(EXTENSIONS))})")
    return found


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        remedy = "give a COLMAP model in text form (colmap model_converter --output_type TXT)"
        raise InputError(f"cannot read {path} ({getattr(error, 'strerror', error)}): {remedy}") from error
    yield from ((number, line) for number, line in enumerate(lines, 1) if not line.startswith("#"))


def _colmap_cameras(path: Path) -> dict[str, tuple[tuple[int, int], list[float]]]:
    """(height, width) and fx, fy, cx, cy of each camera."""
    cameras = {}
    for number, line in _lines(path):
        if not line.strip():
            continue
        try:
            camera, model, width, height, *rest = line.split()
            if model not in _FOCAL_LENGTHS:
                known = ", ".join(_FOCAL_LENGTHS)
                raise InputError(f"{path}, line {number}: model {model} is not one of {known}; undistort the images")
            count = _FOCAL_LENGTHS[model]
            focal = [float(value) for value in (rest[0], rest[count - 1], rest[count], rest[count + 1])]
            cameras[camera] = (int(height), int(width)), focal
        except (ValueError, IndexError) as error:
            raise InputError(f"{path}, line {number}: it is not a camera of COLMAP's") from error
    return cameras


def _colmap_images(path: Path) -> Iterator[tuple[int, list[str]]]:
    """Every image's line; the one after it, which may be empty, lists its points."""
    lines = list(_lines(path))
    while lines and not lines[-1][1].strip():
        lines.pop()
    yield from ((number, line.strip().split(maxsplit=9)) for number, line in lines[::2])


def _with_extension(path: Path) -> Path:
    """Blender's files name images without their extension."""
    return path if path.suffix else path.with_name(f"{path.name}.png")


def _nerfstudio_intrinsics(values: dict[str, Any]) -> list[float] | None:
    """fx, fy, cx, cy, where they are known."""
    width, height = values.get("w"), values.get("h")
    fx = values.get("fl_x")
    if fx is None and "camera_angle_x" in values and width is not None:
        fx = width / 2 / math.tan(values["camera_angle_x"] / 2)
    cx = values.get("cx", width / 2 if width is not None else None)
    cy = values.get("cy", height / 2 if height is not None else None)
    found = [fx, values.get("fl_y", fx), cx, cy]
    complete = [float(value) for value in found if value is not None]
    return complete if len(complete) == 4 else None
