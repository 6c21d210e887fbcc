"""Video files, decoded frame by frame: memory holds a few frames of a video of any length."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from PIL import Image

from niso.data.squares import square
from niso.data.video.sequences import TRAIN, Frame, check_name, digest_of
from niso.errors import InputError, counted

if TYPE_CHECKING:
    from types import ModuleType

EXTENSIONS = frozenset({".avi", ".m4v", ".mkv", ".mov", ".mp4", ".mpeg", ".mpg", ".mts", ".webm"})

_UPRIGHT = {
    (-1, 0, 0, -1): Image.Transpose.ROTATE_180,
    (0, -1, 1, 0): Image.Transpose.ROTATE_90,
    (0, 1, -1, 0): Image.Transpose.ROTATE_270,
    (-1, 0, 0, 1): Image.Transpose.FLIP_LEFT_RIGHT,
    (1, 0, 0, -1): Image.Transpose.FLIP_TOP_BOTTOM,
    (0, 1, 1, 0): Image.Transpose.TRANSPOSE,
    (0, -1, -1, 0): Image.Transpose.TRANSVERSE,
}
"""What shows a frame as its display matrix says, which takes a point (x, y) to (ax + cy, bx + dy), by (a, b, c, d)."""


@dataclass(frozen=True)
class Video:
    """A video file, without cameras.

    Attributes:
        name: see `niso.data.video.sequences.Source`.
        every: 1 takes every frame, 2 every second one, …
    """

    split: ClassVar[str] = TRAIN
    """Without cameras there is nothing to test."""

    name: str
    path: Path
    every: int = 1

    def __post_init__(self) -> None:
        check_name(self.name)

    def digest(self) -> str:
        digest = digest_of([self.path])
        digest.update(repr(self.every).encode())
        return digest.hexdigest()

    def frames(self, size: int) -> Iterator[Frame]:
        for number, (_, image) in enumerate(read_video(self.path, self.every)):
            yield Frame(number, f"frame {number}", square(image, size), image.size[::-1])


def read_video(path: Path, every: int = 1) -> Iterator[tuple[float, Image.Image]]:
    """Every n-th frame in display order: its time in seconds and its image as the file says that it is to be shown:
    turned or mirrored, with square pixels.

    Raises:
        InputError: at once if nothing can be decoded or the extra `video` is not installed; after the last good frame
            if the file is truncated or damaged, so that earlier frames can be used.
    """
    if every < 1:
        raise ValueError(f"every must be at least 1, got {every}")
    av, good = _decoder(), 0
    try:
        with _open(av, path) as container:
            stream = _film(container)
            if stream is None:
                raise InputError(f"{path.name} holds no video")
            if stream.codec_context is None:  # PyAV below version 18.1 would end the process
                raise _undecodable(path, "Decoder not found")
            frames, end = container.decode(stream), 0.0
            for good in count():
                frame = next(frames, None)
                if frame is None:
                    break
                if frame.is_corrupt:
                    raise InputError(f"{path.name} is truncated or damaged: {counted(good, 'frame')} can be decoded")
                end = frame.time if frame.time is not None else good / float(stream.average_rate or 1)
                if good % every == 0:
                    yield end, _shown(frame, stream)
            _check_end(path, container, stream, good, end)
    except FileNotFoundError as error:
        problem = "is a link to a place that does not exist" if path.is_symlink() else "is missing"
        raise InputError(f"{path} {problem}") from error
    except av.FFmpegError as error:
        if good:
            problem = f"is truncated or damaged: {counted(good, 'frame')} can be decoded ({error.strerror})"
            raise InputError(f"{path.name} {problem}") from error
        raise _undecodable(path, error.strerror) from error


def _undecodable(path: Path, problem: str) -> InputError:
    return InputError(f"{path.name} cannot be decoded ({problem}): give a video, or save it again as .mp4")


def _shown(frame: Any, stream: Any) -> Image.Image:
    """A frame as it is to be shown."""
    transparent = any(component.is_alpha for component in frame.format.components)
    image: Image.Image = Image.fromarray(frame.to_ndarray(format="rgba")) if transparent else frame.to_image()
    aspect = float(stream.sample_aspect_ratio or 1)  # width of a pixel over its height
    if aspect != 1:
        image = image.resize((max(1, round(image.width * aspect)), image.height), Image.Resampling.BICUBIC)
    matrix = frame.side_data.get("DISPLAYMATRIX")
    if matrix is None:
        return image
    a, b, _, c, d = (round(entry / (1 << 16)) for entry in struct.unpack("=5i", bytes(matrix)[:20]))
    turn = _UPRIGHT.get((a, b, c, d))
    return image if turn is None else image.transpose(turn)


def count_frames(path: Path) -> int:
    """Number of frames by the file's header, or by its duration; 0 if it states neither.

    Raises:
        InputError: it cannot be opened.
    """
    av = _decoder()
    try:
        with _open(av, path) as container:
            stream = _film(container)
            if stream is None:
                return 0
            return int(stream.frames or _seconds(container) * (stream.average_rate or 0))
    except av.FFmpegError as error:
        raise _undecodable(path, error.strerror) from error


def _film(container: Any) -> Any:
    """The video stream with most frames, as far as the file says, for a cover has one; None where there is none."""
    best = getattr(container.streams.best("video"), "index", None)
    return max(container.streams.video, key=lambda stream: (stream.frames, stream.index == best), default=None)


def _decoder() -> ModuleType:
    try:
        import av
    except ImportError as error:
        raise InputError("video files need PyAV: pip install 'av>=14'") from error
    return av


def _open(av: ModuleType, path: Path) -> Any:
    """A video file; of its title and other words, some may be no UTF-8, which PyAV minds below version 19."""
    options = {"metadata_errors": "replace"} if int(av.__version__.split(".")[0]) < 19 else {}
    return av.open(str(path), **options)


def _check_end(path: Path, container: Any, stream: Any, good: int, end: float) -> None:
    """Raise InputError where the file promised more frames; some decoders end early without an error."""
    if not good:
        raise InputError(f"{path.name} holds no frame that can be decoded")
    rate, start = float(stream.average_rate or 1), float((stream.start_time or 0) * (stream.time_base or 0))
    whole = stream.duration is not None and end - start >= float(stream.duration * stream.time_base) - 2 / rate
    if stream.frames and good < stream.frames and not whole:  # frames that an edit list hides count as stored, too
        problem = f"{good} of its {stream.frames} frames can be decoded"
        # AVI has a frame without content where the picture before it stays
        raise InputError(f"{path.name} is truncated, or ends in empty frames: {problem}")
    promised, length = _seconds(container), end - (container.start_time or 0) / 1e6
    if not stream.frames and length < 0.9 * promised - 1 / rate:  # sound may be a little longer
        raise InputError(f"{path.name} is truncated: {length:.1f} of its {promised:.1f} seconds can be decoded")


def _seconds(container: Any) -> float:
    """Seconds from its first time on, by its header; 0 if it states none. Matroska's count from time 0."""
    before = container.start_time or 0 if container.format.name.startswith("matroska") else 0
    return max((container.duration or 0) - before, 0) / 1e6
