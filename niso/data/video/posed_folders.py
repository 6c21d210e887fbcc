"""The user's footage: folders of frames, with cameras by COLMAP or nerfstudio, or without."""

from __future__ import annotations

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
from niso.files import parse_json
from niso.geometry.cameras import from_world_to_camera

_FOCAL_LENGTHS = dict(SIMPLE_PINHOLE=1, PINHOLE=2, SIMPLE_RADIAL=1, RADIAL=1, OPENCV=2, FULL_OPENCV=2)
"""COLMAP's perspective models; their distortion is ignored."""


def frame_folder(folder: Path, name: str | None = None, split: str = "train") -> Sequence:
    """A folder of frames without cameras, in the natural order of their names (frame2 before frame10).

    Raises:
        InputError: the folder is missing or has no images.
    """
    images = sorted(_images(folder), key=lambda path: natural(path.name))
    return Sequence(name or folder.resolve().name, images, list(range(len(images))), split=split)


def colmap(model: Path, images: Path, name: str | None = None, split: str = "train") -> Sequence:
    """A video with cameras by COLMAP, from its text model. Images that were not registered count as missing frames.

    Args:
        model: folder with images.txt and cameras.txt; `colmap model_converter --output_type TXT` writes them.
        images: the folder of all images, which images.txt names relative to it.

    Raises:
        InputError: a file is missing or not COLMAP's, a camera model is not a perspective one, images are of mixed
            sizes, or there are none.
    """
    known = {path.relative_to(images).as_posix(): path for path in _images(images)}
    cameras = _colmap_cameras(model / "cameras.txt")
    rows = dict[str, tuple[list[float], tuple[int, int], list[float]]]()
    for line, fields in _colmap_images(model / "images.txt"):
        try:
            _, *values, camera, file = fields
            row = ([float(value) for value in values], *cameras[camera])
            if len(values) != 7:
                raise ValueError
        except (KeyError, ValueError) as error:
            raise InputError(f"{model / 'images.txt'}, line {line}: it is not an image of COLMAP's") from error
        if file in rows:
            raise InputError(f"{model / 'images.txt'}, line {line}: image {file} comes twice")
        rows[file] = row
        known.setdefault(file, images / file)
    sizes = sorted({size for _, size, _ in rows.values()})
    if len(sizes) != 1:
        listed = ", ".join(f"{width}×{height}" for height, width in sizes) or "there are none"
        raise InputError(f"the images of {model} must be of one size ({listed})")
    registered = {file: number for number, file in enumerate(sorted(known, key=natural)) if file in rows}
    extrinsics, _, intrinsics = zip(*(rows[file] for file in registered), strict=True)
    seven = torch.tensor(extrinsics, dtype=torch.float64)
    unit = seven[:, :4] / seven[:, :4].norm(dim=-1, keepdim=True)  # a quaternion 0 becomes NaN, which is named
    poses, problems = from_world_to_camera(roma.unitquat_to_rotmat(roma.quat_wxyz_to_xyzw(unit)), seven[:, 4:])
    paths, numbers = [known[file] for file in registered], list(registered.values())
    name = name or images.resolve().name
    return Sequence(name, paths, numbers, poses, np.array(intrinsics), split, problems, sizes[0])


def nerfstudio(path: Path, name: str | None = None, split: str = "train") -> Sequence:
    """A video with cameras in nerfstudio's transforms.json (Instant NGP's and Blender's too), in the order of names.

    Other images in the same folders count as missing frames.

    Args:
        path: the file, or the folder that holds it. Images are named relative to that folder; distortion is ignored.

    Raises:
        InputError: the file is missing or not nerfstudio's, or names an image twice.
    """
    path = path / "transforms.json" if path.is_dir() else path
    try:
        content = parse_json(path.read_text(encoding="utf-8"))
        named = [(_with_extension(path.parent / frame["file_path"]), frame) for frame in content["frames"]]
        named.sort(key=lambda pair: natural(pair[0].as_posix()))
        images = [image for image, _ in named]
        matrices = torch.tensor([frame["transform_matrix"] for _, frame in named], dtype=torch.float64)
        intrinsics = [_nerfstudio_intrinsics({**content, **frame}) for _, frame in named]
        if matrices.shape != (len(named), 4, 4) or not named:
            raise ValueError("its matrices are not 4×4, or there are none")
    except (OSError, ValueError, KeyError, TypeError, OverflowError) as error:
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
    listed = set(images)
    numbers = [number for number, image in enumerate(order) if image in listed]
    return Sequence(name or path.resolve().parent.name, images, numbers, poses, known, split, problems)


def _images(folder: Path) -> list[Path]:
    if not folder.is_dir():
        raise InputError(f"{folder} is not a folder: give one that holds frames")
    paths = [path for path in folder.rglob("*") if path.suffix.lower() in EXTENSIONS and path.is_file()]
    if not paths:
        raise InputError(f"{folder} holds no images ({', '.join(sorted(EXTENSIONS))})")
    return paths


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
            if not (count := _FOCAL_LENGTHS.get(model)):
                known = ", ".join(_FOCAL_LENGTHS)
                raise InputError(f"{path}, line {number}: model {model} is not one of {known}; undistort the images")
            focal = [float(rest[place]) for place in (0, count - 1, count, count + 1)]
            cameras[camera] = (int(height), int(width)), focal
        except (ValueError, IndexError) as error:
            raise InputError(f"{path}, line {number}: it is not a camera of COLMAP's") from error
    return cameras


def _colmap_images(path: Path) -> Iterator[tuple[int, list[str]]]:
    """Lines of the images; the line after each, which may be empty, lists its points."""
    lines = list(_lines(path))
    while lines and not lines[-1][1].strip():
        lines.pop()
    yield from ((number, line.strip().split(maxsplit=9)) for number, line in lines[::2])


def _with_extension(path: Path) -> Path:
    """Blender's files name images without their extension."""
    return path if path.suffix else path.with_name(f"{path.name}.png")


def _nerfstudio_intrinsics(values: dict[str, Any]) -> list[float] | None:
    """fx, fy, cx, cy if all are known."""
    values = {key: value for key, value in values.items() if value is not None}
    width, height = values.get("w", math.nan), values.get("h", math.nan)
    fx = values.get("fl_x", math.nan)
    if "fl_x" not in values and "camera_angle_x" in values:
        fx = width / 2 / math.tan(values["camera_angle_x"] / 2)
    numbers = [fx, values.get("fl_y", fx), values.get("cx", width / 2), values.get("cy", height / 2)]
    return None if any(map(math.isnan, numbers)) else [float(number) for number in numbers]
