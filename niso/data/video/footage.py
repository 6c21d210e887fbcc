"""The user's footage: video files, folders of frames and reconstructions in a folder."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Literal

from niso.data.pictures import EXTENSIONS, other_formats, own_pictures
from niso.data.prepared import PARAMETERS
from niso.data.video import co3d
from niso.data.video.files import EXTENSIONS as VIDEO_EXTENSIONS
from niso.data.video.files import Video
from niso.data.video.posed_folders import colmap, frame_folder, nerfstudio
from niso.data.video.sequences import Draw, Refused, Sequence, Source, hold_out
from niso.errors import InputError, counted, nearest, some_of
from niso.files.search import files_below, holds_run, natural, walk

_MODELS = ("sparse/0", "sparse", "colmap/sparse/0", "")
"""Places of COLMAP's model in the folder that holds `images`."""
_CAMERAS = re.compile(r"transforms.*\.json|images\.(txt|bin)|poses_bounds\.npy|(groundtruth|poses)\.txt")
"""Files that tools write cameras to."""
_WHERE = (
    "cameras are read from transforms.json, or COLMAP's sparse/0, sparse or colmap/sparse/0, in the folder that holds "
    "the images"
)
_PLACES = "videos are looked for down to CATEGORY/NAME, and not beside frames"
_ASIDE = f"{_PLACES}: move it to a folder of its own"
_UNREAD = frozenset({".3gp", ".asf", ".flv", ".m2ts", ".mpe", ".ogv", ".ts", ".vob", ".wmv"})
"""Of videos that are passed over."""
_DEEPEST = 3
"""Levels of folders that are searched for what is not read."""


@dataclass(frozen=True)
class Footage:
    """One video, not opened yet.

    Attributes:
        name: as in `niso.data.video.sequences.Source`.
        kind: a video file, a folder of frames, or frames with cameras by COLMAP or nerfstudio.
    """

    name: str
    path: Path
    kind: Literal["video", "frames", "colmap", "nerfstudio"]

    @property
    def posed(self) -> bool:
        """Whether it comes with cameras."""
        return self.kind in ("colmap", "nerfstudio")

    @property
    def is_file(self) -> bool:
        """Whether it is a video file, and no folder."""
        return self.kind == "video"

    @property
    def of_pictures(self) -> bool:
        """Whether it is a folder of frames alone, without cameras."""
        return self.kind == "frames"

    def open(self, every: int = 1) -> Source:
        """Its frames, or every second one, third one, …

        Raises:
            InputError: files are missing or damaged.
        """
        if self.is_file:
            return Video(self.name, self.path, every)
        if self.kind == "colmap":
            images, model = self.path / "images", _model(self.path) or self.path
            return thinned(colmap(model, images if images.is_dir() else self.path, self.name), every)
        read = frame_folder if self.of_pictures else nerfstudio
        return thinned(read(self.path, self.name), every)


def find_footage(source: Path) -> list[Footage]:
    """The videos of a file or a folder.

    A folder is one video if it holds images, transforms.json, or a model by COLMAP (in `sparse/0`, `sparse` or
    `colmap/sparse/0`, or beside the images); otherwise each video file and each such folder in it is one, down to
    CATEGORY/NAME.

    Raises:
        InputError: there are no videos, two would have the same name, or the folder is CO3Dv2 or prepared already.
    """
    if not source.exists():
        raise InputError(f"{source} does not exist")
    if not (source.is_file() or source.is_dir()):
        raise InputError(f"{source} is neither a file nor a folder: give a video file, or a folder of footage")
    if (source / PARAMETERS).is_file():
        raise InputError(f"{source} is prepared already: give the footage itself")
    if any(source.glob(f"*/{co3d.FRAMES}")):
        raise InputError(f"{source} is in CO3Dv2's layout: use `niso data prepare co3d`")
    kind, videos = _kind(source), list(_within(source)) if source.is_dir() else []
    stray = kind == "frames" and videos and len(own_pictures(source)) == 1  # one picture among videos is no video
    if kind and not stray:
        return [Footage(_name(source.resolve()), source, kind)]
    for one, other in pairwise(sorted(videos, key=lambda video: video.name)):
        if one.name == other.name:
            raise InputError(f"{one.path} and {other.path} are both the video {one.name}: rename one of them")
    if source.is_file():
        raise InputError(f"{source} is no video file ({' '.join(sorted(VIDEO_EXTENSIONS))}): save it as .mp4")
    if not videos:
        known = " ".join(sorted(VIDEO_EXTENSIONS | EXTENSIONS))
        raise InputError(f"{source} holds no video files and no folders of frames ({known})")
    return videos


def overlooked(source: Path, videos: list[Footage]) -> list[str]:
    """What lies in a folder of footage and is not read, though a user may count on it: cameras under other names or in
    other places, frames and videos in folders further down, videos beside frames, and files of other formats. Each is a
    line."""
    read, posed = {video.path for video in videos}, {video.path for video in videos if video.posed}
    found = [note] if (note := other_formats(source)) else []
    for name, below, files in walk(source):
        folder = Path(name)
        if holds_run(files):
            below.clear()
            continue
        below[:] = sorted((one for one in below if not one.startswith(".")), key=natural)
        depth = len(folder.relative_to(source).parts)
        if depth == _DEEPEST:
            below.clear()
        if posed.isdisjoint((folder, *folder.parents)):
            cameras = sorted(filter(_CAMERAS.fullmatch, files))
            found += [f"{(folder / file).relative_to(source)}: {_WHERE}" for file in cameras]
            for path in (folder / file for file in sorted(files) if not file.startswith(".")):
                if path.suffix.lower() in _UNREAD:
                    found.append(f"{path.relative_to(source)}: save it as .mp4")
                elif path.suffix.lower() in VIDEO_EXTENSIONS and path not in read and path.is_file():
                    found.append(f"{path.relative_to(source)}: {_ASIDE}")
        if depth == _DEEPEST and not read.intersection(folder.parents) and own_pictures(folder):
            found.append(f"{folder.relative_to(source)}: frames are looked for down to CATEGORY/NAME")
    return found


def unread_in(source: Path, videos: list[Footage]) -> str:
    """Which video files in a folder, at any depth, are none of these, and which pictures are in none, in words; empty
    where all are."""
    if not source.is_dir():
        return ""
    read = {video.path for video in videos}
    left = [str(file.relative_to(source)) for file in files_below(source, VIDEO_EXTENSIONS) if file not in read]
    if left:
        return f"{counted(len(left), 'video')} not read ({some_of(left)}): {_PLACES}"
    pictures = files_below(source, EXTENSIONS)
    stray = [str(file.relative_to(source)) for file in pictures if read.isdisjoint(file.parents)]
    return f"{counted(len(stray), 'picture')} in no clip ({some_of(stray)}): move them elsewhere" if stray else ""


def draw(videos: list[Footage], held_out: float, test: Iterable[str] = (), seed: int = 0) -> Draw:
    """How to draw the sequences to test on, once it is known which could be prepared.

    Args:
        held_out: share of those with cameras that is drawn to test on.
        test: names to test on instead.

    Raises:
        InputError: a name is not among them.
    """
    names = [video.name for video in videos]
    for name in test:
        if name not in names:
            raise InputError(f"no sequence {name!r} to test on{nearest(name, names)}")
    if stated := set(test):
        return stated.intersection
    return partial(hold_out, sorted(video.name for video in videos if video.posed), held_out, seed)


def sequences(videos: list[Footage], every: int = 1) -> Iterator[Source | Refused]:
    """Footage opened one by one."""
    for video in videos:
        try:
            yield video.open(every)
        except InputError as error:
            yield Refused(video.name, str(error))


def thinned(sequence: Sequence, every: int) -> Sequence:
    """Every n-th frame from number 0 on, numbered consecutively."""
    if every == 1:
        return sequence
    kept = [place for place, number in enumerate(sequence.numbers) if number % every == 0]
    return replace(
        sequence,
        images=[sequence.images[place] for place in kept],
        numbers=[sequence.numbers[place] // every for place in kept],
        poses=None if sequence.poses is None else sequence.poses[kept],
        problems={new: sequence.problems[old] for new, old in enumerate(kept) if old in sequence.problems},
    )


def _within(folder: Path, category: str = "") -> Iterator[Footage]:
    for path in sorted(folder.iterdir(), key=lambda path: natural(path.name)):
        if path.name.startswith("."):
            continue
        if kind := _kind(path):
            yield Footage(category + _name(path), path, kind)
        elif path.is_dir() and not category and not holds_run(os.listdir(path)):
            yield from _within(path, f"{path.name}/")


def _name(path: Path) -> str:
    return path.name if path.is_dir() else path.stem


def _kind(path: Path) -> Literal["video", "frames", "colmap", "nerfstudio"] | None:
    if not path.is_dir():
        # A link that leads to nothing is refused as a damaged file is; pipes and the like are no data.
        file = path.is_file() or (path.is_symlink() and not path.exists())
        return "video" if file and path.suffix.lower() in VIDEO_EXTENSIONS else None
    if (path / "transforms.json").is_file():
        return "nerfstudio"
    if _model(path) is not None:
        return "colmap"
    return "frames" if own_pictures(path) else None


def _model(path: Path) -> Path | None:
    """COLMAP's model of the images in a folder. A folder `colmap` may instead be a sequence of that name."""
    for place in _MODELS:
        own = not place.startswith("colmap") or (_holds_images(path) and not _holds_images(path / "colmap"))
        if own and _is_model(path / place):
            return path / place
    return None


def _holds_images(folder: Path) -> bool:
    return folder.is_dir() and ((folder / "images").is_dir() or bool(own_pictures(folder)))


def _is_model(folder: Path) -> bool:
    return any((folder / f"images.{kind}").is_file() for kind in ("txt", "bin"))
