"""Video sequences: as readers of data sets return them, with frames on the disk, and in memory."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path, PurePosixPath
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float, UInt8
from PIL import Image
from torch import Tensor

from niso.data.squares import read_square, read_turned
from niso.errors import InputError
from niso.random import step_seed

TRAIN, TEST = "train", "test"
"""Parts of a data set."""


class Clip(NamedTuple):
    """Frames of one sequence in memory.

    Attributes:
        images: (frames, 3, height, width) in 0 … 255.
        poses: (frames, 4, 4) camera-to-world in OpenCV's axes, float64; NaN where there are none.
    """

    images: UInt8[Tensor, "frames 3 height width"]
    poses: Float[Tensor, "frames 4 4"]


class Frame(NamedTuple):
    """One frame of a `Source`, on its way into a prepared folder.

    Attributes:
        number: of the frame; a gap means missing frames.
        name: what messages call it.
        image: its centred square, resized; None where it cannot be used, for `problem`.
        size: (height, width) that it had.
        pose: as in `Clip`; None where there is none.
    """

    number: int
    name: str
    image: Image.Image | None
    size: tuple[int, int] = (0, 0)
    pose: Float[np.ndarray, "4 4"] | None = None
    problem: str = ""


@runtime_checkable
class Source(Protocol):
    """A video to prepare, whatever holds its frames."""

    @property
    def name(self) -> str:
        """Unique in its data set; "category/sequence", or one part only."""

    @property
    def split(self) -> str:
        """Its part of the data set, unless that is drawn after the preparation."""

    def digest(self) -> str:
        """Fingerprint of all that `frames` depend on; files by name, size and time."""

    def frames(self, size: int) -> Iterator[Frame]:
        """Its frames in the order of time, `size` pixels high and wide, also those that cannot be used.

        Raises:
            InputError: nothing can be used, or, after the last good frame, the frames end too early.
        """


class Refused(NamedTuple):
    """A video that its reader could not open."""

    name: str
    reason: str


@dataclass(frozen=True)
class Sequence:
    """One video: image files in order, with a camera each.

    Attributes:
        name, split: see `Source`.
        images: files in the order of time.
        numbers: frame numbers, increasing; a gap means missing frames.
        poses: as in `Clip`; None where the data set has none.
        problems: reasons why frames cannot be used, by place in `images`.
        size: (height, width) of the images that the cameras are of: all images are copies of one scale; None if any
            common size will do.
    """

    name: str
    images: list[Path]
    numbers: list[int]
    poses: Float[np.ndarray, "frames 4 4"] | None = None
    split: str = TRAIN
    problems: dict[int, str] = field(default_factory=dict)
    size: tuple[int, int] | None = None

    def __post_init__(self) -> None:
        check_name(self.name)
        if any(after <= before for before, after in pairwise(self.numbers)):
            raise InputError(f"{self.name}: frame numbers are not increasing: each must occur once")

    def digest(self) -> str:
        digest = digest_of(self.images)
        digest.update(repr((self.numbers, sorted(self.problems.items()), self.size)).encode())
        digest.update(b"-" if self.poses is None else np.ascontiguousarray(self.poses, np.float64).tobytes())
        return digest.hexdigest()

    def frames(self, size: int) -> Iterator[Frame]:
        unchecked = self.size
        for place, (number, path) in enumerate(zip(self.numbers, self.images, strict=True)):
            pose = None if self.poses is None else self.poses[place]
            if place in self.problems:
                yield Frame(number, path.name, None, problem=self.problems[place])
                continue
            try:
                image, actual, pose = _read(path, size, pose)
            except InputError as error:
                yield Frame(number, path.name, None, problem=str(error))
                continue
            if unchecked:
                _check_scaled(actual, unchecked)
                unchecked = None
            yield Frame(number, path.name, image, actual, pose)


_QUARTER_TURNS = {1: 0, 6: 1, 3: 2, 8: 3}
"""Clockwise, by which viewers show a picture of an orientation by EXIF; others are mirror images."""


def _read(
    path: Path, size: int, pose: Float[np.ndarray, "4 4"] | None
) -> tuple[Image.Image, tuple[int, int], Float[np.ndarray, "4 4"] | None]:
    """A frame as viewers show it, its height and width, and its camera, turned with it. The size is that of the pixels
    as they are stored where there is a camera, which is known for these."""
    if pose is None:
        return *read_square(path, size), None
    image, actual, orientation = read_turned(path, size)
    if orientation not in _QUARTER_TURNS:
        raise InputError(f"{path.name} is to be shown as its mirror image, which no camera sees: save it upright")
    turn = np.eye(4)
    turn[:2, :2] = np.linalg.matrix_power(np.array([[0, 1], [-1, 0]]), _QUARTER_TURNS[orientation])
    return image, actual, pose @ turn


def _check_scaled(size: tuple[int, int], cameras: tuple[int, int]) -> None:
    """Check that images are those that their cameras are of, or copies of another scale, up to rounding to pixels."""
    (height, width), (whole_height, whole_width) = size, cameras
    if abs(height * whole_width - width * whole_height) > max(cameras):
        raise InputError(
            f"its frames have {width}×{height} pixels and its cameras are of {whole_width}×{whole_height}: give the "
            "images that the cameras were found from, or copies of another scale"
        )


def digest_of(paths: Iterable[Path]) -> hashlib.blake2b:
    """Fingerprint of files by name, size and time, to be updated with more."""
    digest = hashlib.blake2b(digest_size=16)
    for path in paths:
        status = path.stat() if path.is_file() else None
        facts = (path.name, status.st_size, status.st_mtime_ns) if status else (path.name,)
        digest.update(repr(facts).encode())
    return digest


def check_name(name: str) -> None:
    """Check that a sequence's name can name a file in a prepared folder.

    Raises:
        InputError: it cannot.
    """
    parts = PurePosixPath(name).parts
    if "/".join(parts) != name or not 1 <= len(parts) <= 2 or {"..", "/", "."} & set(parts):
        raise InputError(f"sequence name {name!r} cannot be a file's: it must be NAME or CATEGORY/NAME")


Draw = Callable[[Collection[str]], set[str]]
"""Names of sequences to test on, drawn from those that could be prepared."""


def hold_out(names: list[str], share: float, seed: int, usable: Collection[str]) -> set[str]:
    """Random sequences to test on: a share of the usable ones, and at least one of two or more unless the share is 0.

    Args:
        names: all sequences. They are put in a random order, of which the first usable ones are taken: what is refused
            hardly changes what becomes of the others.
        usable: any names; those that are not in `names` are not drawn.
    """
    order = np.random.default_rng(step_seed(seed, 0, "held out")).permutation(len(names))
    ranked = [names[place] for place in order if names[place] in usable]
    count = max(1, round(share * len(ranked))) if share and len(ranked) > 1 else 0
    return set(ranked[:count])


def stands_still(poses: Float[np.ndarray, "frames 4 4"]) -> bool:
    """Whether a camera, known at two frames or more, is the same at all of them, up to rounding."""
    return len(poses) > 1 and bool(np.allclose(poses, poses[0], rtol=1e-12, atol=1e-12))


def longest_run(numbers: list[int], problems: dict[int, str]) -> range:
    """Places of the longest run of usable frames with consecutive numbers; the first one of several.

    Args:
        problems: by place, see `Sequence`.
    """
    best, start = range(0), 0
    for place in range(len(numbers) + 1):
        ends = place == len(numbers) or place in problems
        if ends or (place > start and numbers[place] != numbers[place - 1] + 1):
            if place - start > len(best):
                best = range(start, place)
            start = place + 1 if ends else place
    return best
