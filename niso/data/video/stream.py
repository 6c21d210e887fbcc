"""Frames of one video, one after the other, as networks take them: of a file, a folder of images, or a prepared one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from jaxtyping import UInt8
from PIL import Image
from torch import Tensor

from niso.data.prepared import PARAMETERS
from niso.data.squares import as_tensor, read_square, resized, square
from niso.data.video.files import count_frames, read_video
from niso.data.video.posed_folders import frame_folder
from niso.data.video.prepared import open_frames
from niso.errors import InputError, nearest


class TimedFrame(NamedTuple):
    """The largest centred square of a frame, resized, and its time in seconds, or its number where frames are files.

    Frames of a prepared folder are exactly those that the pose experiment trains and tests on.
    """

    time: float
    image: UInt8[Tensor, "3 size size"]


class Stream(NamedTuple):
    """Frames of a video, read on demand.

    Attributes:
        frames: in order. A damaged frame, or one of another size, raises an InputError, and so does the end of a
            truncated file; earlier frames can be used.
        total: number of frames, approximately; 0 if unknown.
    """

    name: str
    frames: Iterator[TimedFrame]
    total: int


def open_stream(path: Path, size: int, every: int = 1, sequence: str | None = None) -> Stream:
    """Every n-th frame of a video.

    Args:
        path: a video file, a folder of images (taken in the natural order of their names), or a prepared folder.
        size: height and width in pixels.
        sequence: name of a sequence in a prepared folder; needed if it holds several.

    Raises:
        InputError: the path does not exist; or `sequence` is missing, unknown, or given without a prepared folder.
    """
    if (path / PARAMETERS).is_file():
        return _prepared(path, size, every, sequence)
    if sequence is not None:
        raise InputError(f"{path} is not a prepared folder, which alone has sequences by name: leave --sequence out")
    if path.is_dir():
        files = frame_folder(path).images[::every]
        read = ((float(number * every), *read_square(file, size)) for number, file in enumerate(files))
        return Stream(path.resolve().name, _same_size(path.resolve().name, read), len(files))
    if not path.exists():
        raise InputError(f"{path} does not exist: give a video file, a folder of images, or a prepared folder")
    decoded = ((seconds, square(image, size), image.size[::-1]) for seconds, image in read_video(path, every))
    return Stream(path.stem, _same_size(path.name, decoded), -(-count_frames(path) // every))


def _prepared(folder: Path, size: int, every: int, sequence: str | None) -> Stream:
    prepared = open_frames(folder)
    name = sequence or prepared.names[0]
    if name not in prepared.names:
        raise InputError(f"{folder} has no sequence {name!r}{nearest(name, prepared.names)}")
    if sequence is None and len(prepared.names) > 1:
        some = ", ".join(prepared.names[:5]) + (", …" if len(prepared.names) > 5 else "")
        raise InputError(f"{folder} holds {len(prepared.names)} sequences: choose one by --sequence ({some})")
    place = prepared.names.index(name)
    numbers = range(0, prepared.lengths[place], every)
    frames = (TimedFrame(float(number), resized(prepared.image(place, number)[None], size)[0]) for number in numbers)
    return Stream(name, frames, len(numbers))


def _same_size(name: str, frames: Iterator[tuple[float, Image.Image, tuple[int, int]]]) -> Iterator[TimedFrame]:
    expected = None
    for time, image, actual in frames:
        expected = expected or actual
        if actual != expected:
            sizes = " and ".join(f"{width}×{height}" for height, width in (expected, actual))
            raise InputError(f"frames of {name} are of mixed sizes ({sizes} pixels)")
        yield TimedFrame(time, as_tensor(image))
