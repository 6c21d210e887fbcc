"""The user's footage: folders of frames, with cameras by COLMAP or nerfstudio, or without."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import torch

from niso.data.pictures import EXTENSIONS, own_pictures, pictures_in
from niso.data.video.files import EXTENSIONS as VIDEOS
from niso.data.video.sequences import Sequence
from niso.errors import InputError
from niso.files.json import parse_json
from niso.files.search import natural
from niso.geometry import so3
from niso.geometry.cameras import from_world_to_camera
from niso.geometry.lenses import Lens, check_pinhole

_COLMAP = {
    "SIMPLE_PINHOLE": "f cx cy",
    "PINHOLE": "fx fy cx cy",
    "SIMPLE_RADIAL": "f cx cy k1",
    "RADIAL": "f cx cy k1 k2",
    "OPENCV": "fx fy cx cy k1 k2 p1 p2",
    "FULL_OPENCV": "fx fy cx cy k1 k2 p1 p2 k3 k4 k5 k6",
}
"""Parameters of COLMAP's perspective models, in its order."""


def frame_folder(folder: Path, name: str | None = None) -> Sequence:
    """A folder of frames without cameras, in the natural order of their names (frame2 before frame10). What lies in
    folders below, such as masks, is left alone.

    Raises:
        InputError: the folder is missing or has no images, two have one number, as frame3 and frame03 do, or names are
            decimal numbers whose order is not clear.
    """
    images = own_pictures(folder) if folder.is_dir() else []
    if not images and _images(folder):
        raise InputError(f"{folder} holds no images itself, only folders with some: give one of these")
    _check_decimals(images)
    _check_numbers(images)
    return Sequence(name or folder.resolve().name, images, list(range(len(images))))


def colmap(model: Path, images: Path, name: str | None = None) -> Sequence:
    """A video with cameras by COLMAP, from its text model. Images that were not registered count as missing frames.

    Args:
        model: folder with images.txt and cameras.txt; `colmap model_converter --output_type TXT` writes them.
        images: the folder of all images, which images.txt names relative to it; scaled copies will do.

    Raises:
        InputError: a file is missing or not COLMAP's, a lens is not nearly a pinhole, images are of mixed sizes, there
            are none, or two have one number.
    """
    known = {path.relative_to(images).as_posix(): path for path in _images(images)}
    cameras = _colmap_cameras(model / "cameras.txt")
    rows, used = dict[str, list[float]](), set[str]()
    for line, fields in _colmap_images(model / "images.txt"):
        try:
            _, *values, camera, file = fields
            row = [float(value) for value in values]
            if len(values) != 7 or camera not in cameras:
                raise ValueError
        except ValueError as error:
            raise InputError(f"{model / 'images.txt'}, line {line}: it is not an image of COLMAP's") from error
        if file in rows:
            raise InputError(f"{model / 'images.txt'}, line {line}: image {file} comes twice")
        rows[file] = row
        used.add(camera)
        known.setdefault(file, images / file)
    for place, lens, _ in (cameras[camera] for camera in sorted(used)):
        with _naming(place):
            check_pinhole(lens)
    sizes = sorted({cameras[camera].size for camera in used})
    if len(sizes) != 1:
        listed = ", ".join(f"{width}×{height}" for height, width in sizes) or "there are none"
        raise InputError(f"the images of {model} must be of one size ({listed})")
    numbered = _numbered([images / file for file in rows], [images / file for file in known])
    registered = {file: numbered[images / file] for file in sorted(rows, key=lambda file: numbered[images / file])}
    seven = torch.tensor([rows[file] for file in registered], dtype=torch.float64)
    unit = seven[:, :4] / seven[:, :4].norm(dim=-1, keepdim=True)  # a quaternion 0 becomes NaN, which is named
    poses, problems = from_world_to_camera(so3.unitquat_to_rotmat(so3.quat_wxyz_to_xyzw(unit)), seven[:, 4:])
    paths, numbers = [known[file] for file in registered], list(registered.values())
    name = name or images.resolve().name
    return Sequence(name, paths, numbers, poses, problems=problems, size=sizes[0])


def nerfstudio(path: Path, name: str | None = None) -> Sequence:
    """A video with cameras in nerfstudio's transforms.json (Instant NGP's and Blender's too), in the order of names.

    Other images in the same folders count as missing frames.

    Args:
        path: the file, or the folder that holds it. Images are named relative to that folder; mild distortion is
            ignored.

    Raises:
        InputError: the file is missing or not nerfstudio's, names an image twice, a lens is not nearly a pinhole, two
            images have one number, or names are decimal numbers whose order is not clear.
    """
    path = path / "transforms.json" if path.is_dir() else path
    try:
        frames = _nerfstudio_frames(parse_json(path.read_text(encoding="utf-8-sig")))
        named = [(_image(path.parent / frame.file), frame) for frame in frames]
    except (OSError, ValueError) as error:
        problem = getattr(error, "strerror", None) or error
        raise InputError(f"cannot read cameras from {path} ({problem}): give nerfstudio's transforms.json") from error
    named.sort(key=lambda pair: _order(pair[0]))
    images = [image for image, _ in named]
    matrices = torch.stack([frame.matrix for _, frame in named])
    lenses = {frame.lens for frame in frames}
    sizes = {frame.size for frame in frames if frame.size is not None}
    for lens in lenses:
        with _naming(str(path)):
            check_pinhole(lens)
    if len(set(images)) < len(images):
        twice = next(image for image in images if images.count(image) > 1)
        raise InputError(f"{path} names {twice.name} twice")
    _check_decimals(images)
    # OpenGL's camera-to-world has y up and z backwards: its inverse, with those rows turned, is world-to-camera.
    turned = (matrices[:, :3, :3] * torch.tensor([1.0, -1.0, -1.0], dtype=torch.float64)).mT
    poses, problems = from_world_to_camera(turned, -(turned @ matrices[:, :3, 3:])[..., 0])
    there = {found for folder in {image.parent for image in images} if folder.is_dir() for found in _images(folder)}
    numbered = _numbered(images, there)
    numbers = [numbered[image] for image in images]
    size = sizes.pop() if len(sizes) == 1 else None
    return Sequence(name or path.resolve().parent.name, images, numbers, poses, problems=problems, size=size)


def _check_decimals(images: Iterable[Path]) -> None:
    """InputError where names are times such as 1.5 and 1.25, which a natural order, of whole numbers, would mix up.

    Parts such as 1.9, 1.10 and 1.11 are in order: times that are written without zeros at their ends have no 1.10.
    """
    found = [re.fullmatch(r"[0-9]+(?:\.([0-9]+))?", image.stem) for image in images]
    fractions = {match[1] for match in found if match and match[1]}
    uneven = len({len(fraction) for fraction in fractions}) > 1
    if all(found) and uneven and not any(fraction.endswith("0") for fraction in fractions):
        first, last = min(fractions, key=len), max(fractions, key=len)
        raise InputError(
            f"its frames are named by decimal numbers of {len(first)} to {len(last)} digits after the point, so that "
            "their order is not clear: give all as many digits"
        )


def _numbered(frames: Collection[Path], there: Iterable[Path]) -> dict[Path, int]:
    """The number of each frame, in the order of names. Between folders a number is left out: frames of two cameras are
    no neighbours.

    Args:
        there: other images, which are missing frames, unless they differ from a frame by their extension alone.

    Raises:
        InputError: two have one number, as frame3 and frame03 do.
    """
    stems = {image.with_suffix(""): image for image in there} | {image.with_suffix(""): image for image in frames}
    images = sorted({*frames, *stems.values()}, key=_order)
    _check_numbers(images)
    numbered = dict.fromkeys(images[:1], 0)
    for first, second in pairwise(images):
        numbered[second] = numbered[first] + (1 if first.parent == second.parent else 2)
    return numbered


def _check_numbers(images: Iterable[Path]) -> None:
    """InputError where two of these, in order, have one number in one folder."""
    for first, second in pairwise(images):
        if first.parent == second.parent and natural(first.stem) == natural(second.stem):
            raise InputError(f"{first.name} and {second.name} have one frame number: rename or remove one of them")


def _order(image: Path) -> tuple[list[tuple[int, int, str]], str]:
    """Sort key of frames: natural by folder and name; the path itself makes it the same in every process."""
    return natural(image.with_suffix("").as_posix()), str(image)


def _images(folder: Path) -> list[Path]:
    if not folder.is_dir():
        raise InputError(f"{folder} is not a folder: give one that holds frames")
    paths = pictures_in(folder)
    if not paths:
        if videos := sorted(path.name for path in folder.iterdir() if path.suffix.lower() in VIDEOS):
            raise InputError(f"{folder} holds no images, but videos, such as {videos[0]}: give one of these")
        raise InputError(f"{folder} holds no images ({', '.join(sorted(EXTENSIONS))})")
    return paths


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        remedy = "give a COLMAP model in text form (colmap model_converter --output_type TXT)"
        raise InputError(f"cannot read {path} ({getattr(error, 'strerror', error)}): {remedy}") from error
    yield from ((number, line) for number, line in enumerate(lines, 1) if not line.startswith("#"))


class _Camera(NamedTuple):
    place: str  # in its file
    lens: Lens
    size: tuple[int, int]  # height and width


def _colmap_cameras(path: Path) -> dict[str, _Camera]:
    cameras = {}
    for number, line in _lines(path):
        if not line.strip():
            continue
        place = f"{path}, line {number}"
        try:
            camera, model, width, height, *rest = line.split()
            size = int(height), int(width)
            values = dict(zip(_COLMAP.get(model, "").split(), map(float, rest), strict=model in _COLMAP))
        except ValueError as error:
            raise InputError(f"{place}: it is not a camera of COLMAP's") from error
        focal = {f"fl_{side}": values.get(f"f{side}", values.get("f")) for side in "xy"}
        divided = tuple(values.get(key, 0.0) for key in ("k4", "k5", "k6"))
        lens = _lens(model, {**values, **focal, "w": size[1], "h": size[0]}, ("k1", "k2", "k3"), divided)
        cameras[camera] = _Camera(place, lens, size)
    return cameras


def _colmap_images(path: Path) -> Iterator[tuple[int, list[str]]]:
    """Lines of the images; the line after each, which may be empty, lists its points."""
    lines = list(_lines(path))
    while lines and not lines[-1][1].strip():
        lines.pop()
    for number, line in lines[1::2]:
        fields = line.split(maxsplit=9)
        if len(fields) == 10 and Path(fields[-1]).suffix.lower() in EXTENSIONS:
            raise InputError(f"{path}, line {number}: the line of points, which may be empty, is missing before it")
    yield from ((number, line.strip().split(maxsplit=9)) for number, line in lines[::2])


def _image(path: Path) -> Path:
    """One path for each image, however its folder is written. Blender's files name images without their extension."""
    return Path(os.path.realpath(path.parent)) / (path.name if path.suffix else f"{path.name}.png")


class _Frame(NamedTuple):
    file: str
    matrix: torch.Tensor  # from camera to world
    lens: Lens
    size: tuple[int, int] | None  # height and width


def _nerfstudio_frames(content: object) -> list[_Frame]:
    """The frames of a transforms.json.

    Raises:
        ValueError: it is none; the message says which frame is not as it should be, and how.
    """
    frames = content.get("frames") if isinstance(content, dict) else None
    if not isinstance(content, dict) or not isinstance(frames, list) or not frames:
        raise ValueError('it has no list of "frames", or an empty one')
    found = []
    for number, frame in enumerate(frames):
        if not isinstance(frame, dict) or not isinstance(frame.get("file_path"), str):
            raise ValueError(f'frame {number} has no "file_path"')
        file = frame["file_path"]
        try:
            matrix = torch.tensor(frame.get("transform_matrix"), dtype=torch.float64)
        except (RuntimeError, TypeError, ValueError, OverflowError):
            matrix = torch.empty(0)
        if matrix.shape != (4, 4):
            raise ValueError(f'the "transform_matrix" of {file} is missing, or not 4×4 numbers')
        # those that are not finite are named later, one by one
        if matrix.isfinite().all() and (matrix[3] - matrix.new_tensor([0.0, 0.0, 0.0, 1.0])).abs().max() > 1e-6:
            raise ValueError(f"the last row of the matrix of {file} is not 0, 0, 0, 1: it may be transposed")
        values = {**content, **frame}
        try:
            lens = _nerfstudio_lens(values)
            size = (int(values["h"]), int(values["w"])) if values.get("h") and values.get("w") else None
        except (TypeError, ValueError, OverflowError) as error:
            raise ValueError(f"the lens or the image size of {file} is not given in numbers") from error
        found.append(_Frame(file, matrix, lens, size))
    return found


def _nerfstudio_lens(values: dict[str, Any]) -> Lens:
    """The lens of a frame, from the file's values overlaid by the frame's own."""
    for key, model in (("is_fisheye", "fisheye"), ("is_latlong", "equirectangular"), ("ftheta_p0", "f-theta")):
        if values.get(key):  # Instant NGP's
            return Lens(model, (math.nan, math.nan))
    model = str(values.get("camera_model") or "OPENCV").upper()
    return _lens(model, values, ("k1", "k2", "k3", "k4"))


def _lens(model: str, values: Mapping[str, Any], radial: tuple[str, ...], divided: tuple[float, ...] = ()) -> Lens:
    """A lens of parameters by nerfstudio's names; those that are missing or null are not known.

    Raises:
        TypeError, ValueError: one is not a number.
    """
    known = {key: float(value) for key, value in values.items() if key in _LENS and value is not None}
    halves = []
    for side, focal, angle in (("w", "fl_x", "camera_angle_x"), ("h", "fl_y", "camera_angle_y")):
        half = known.get(side, math.nan) / 2 / (known.get(focal) or math.nan)
        halves.append(math.tan(known[angle] / 2) if math.isnan(half) and angle in known else half)
    across, down = halves  # of the whole image
    aspect = known.get("h", math.nan) / (known.get("w") or math.nan)
    if math.isnan(down):  # the same focal length across and down
        down = across * aspect
    if math.isnan(aspect):  # likewise
        aspect = down / (across or math.nan)
    square = across * min(1.0, aspect), down * min(1.0, 1 / (aspect or math.nan))
    tangential = tuple(known.get(key, 0.0) for key in ("p1", "p2"))
    return Lens(model, square, tuple(known.get(key, 0.0) for key in radial), divided, tangential)


_LENS = frozenset("w h fl_x fl_y camera_angle_x camera_angle_y k1 k2 k3 k4 p1 p2".split())


@contextmanager
def _naming(place: str) -> Iterator[None]:
    """Say where it is that something is wrong."""
    try:
        yield
    except InputError as error:
        raise InputError(f"{place}: {error}") from error
