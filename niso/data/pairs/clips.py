"""Clips: videos, or folders of frames; neighbouring frames are pairs, without any label."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from niso.data.pairs.pictures import about_parts, are_parts
from niso.data.pairs.reader import Reader
from niso.data.pairs.reading import Reading
from niso.data.pairs.squares import check_memory
from niso.data.pairs.table import FEWEST, Table
from niso.data.pictures import EXTENSIONS, about_pictures, own_pictures, pictures_in
from niso.data.video.files import EXTENSIONS as VIDEOS
from niso.data.video.footage import Footage, find_footage, unread_in
from niso.data.video.stream import open_stream
from niso.errors import InputError, counted
from niso.files.digests import digest_of_files
from niso.files.search import files_below

_PAIRED = ({"x", "tx"}, {"x", "tx", "ttx"}, {"before", "after"}, {"source", "target"})
"""Names of folders that speak of pairs. Those of a and b are read as such."""


class ClipReader(Reader):
    """A video, a folder of videos, or a folder with a folder of frames for each clip; folders of categories label
    them."""

    takes = "a folder of clips (videos, or a folder of frames each)"
    reads = frozenset({"size", "skip"})

    @classmethod
    def fits(cls, path: Path, reading: Reading) -> bool:
        if path.is_file():
            return path.suffix.lower() in VIDEOS
        if reading.transform is not None:
            return False
        shown = [folder for folder in sorted(path.iterdir()) if folder.is_dir() and not folder.name.startswith(".")]
        folders = [folder for folder in shown if pictures_in(folder)]
        videos, within = _has_videos(path), any(map(_has_videos, shown))
        if not (videos or ((folders or within) and not own_pictures(path))):
            return False
        if not videos:
            _check_clips(path, folders)
        return True

    @classmethod
    def names(cls, path: Path, reading: Reading) -> set[str]:
        return {"x", "clip", *(("label",) if categories_of([footage.name for footage in find_footage(path)]) else ())}

    @classmethod
    def read(cls, path: Path, reading: Reading, size: int) -> Table:
        frames, clip, names, problems = list[np.ndarray](), list[int](), list[str](), list[str]()
        found = find_footage(path)
        only_frames = len(found) > 1 and all(footage.of_pictures for footage in found)
        if only_frames and not categories_of([footage.name for footage in found]):
            problems.append("each folder is taken for a clip: are these classes? give --transform")
        for footage in found:
            images, problem = read_frames(footage, size, len(clip), reading.memory)
            if problem:
                problems.append(problem)
            if len(images) < 2:
                problems.append(f"{footage.name} has {counted(len(images), 'frame')} and is left out")
                continue
            clip += [len(frames)] * len(images)
            frames.append(images)
            names.append(footage.name)
        if len(clip) < FEWEST:
            problems += filter(None, [unread_in(path, found)])
            reason = f" ({'; '.join(problems[:2])})" if problems else ""
            raise InputError(
                f"{path} holds {len(clip)} frames that can be paired: at least {FEWEST} are needed{reason}"
            )
        files, folder = [path], path.parent
        if path.is_dir():
            files, folder = files_below(path, EXTENSIONS | VIDEOS), path
            outermost = {name.partition("/")[0] for name in names if "/" in name}
            problems += filter(None, [about_parts(outermost), unread_in(path, found), about_pictures(path)])
        views, note, clips = {"x": np.concatenate(frames)}, "; ".join(problems), np.array(clip)
        classes = tuple(sorted(set(categories := categories_of(names))))
        label = np.array([classes.index(name) for name in categories])[clips] if classes else None
        word = digest_of_files(files, folder)
        return Table(str(path), "images", views, label=label, classes=classes, clip=clips, note=note, files=word)


def categories_of(names: Sequence[str]) -> list[str]:
    """The category of each clip, by names CATEGORY/NAME; empty where there are not two, a clip is in none, each clip
    has its own, or the outermost folders are train/, test/ and the like."""
    found = [name.rpartition("/")[0] for name in names]
    if are_parts({name.partition("/")[0] for name in names}):
        return []
    return found if all(found) and 1 < len(set(found)) < len(found) else []


def _has_videos(folder: Path) -> bool:
    return any(file.suffix.lower() in VIDEOS and file.is_file() for file in folder.iterdir())


def _check_clips(path: Path, folders: list[Path]) -> None:
    """InputError where folders look like pairs: their names speak of these, or pictures have the same names, which are
    those of no frames."""
    if len(folders) not in (2, 3):
        return
    first, *others = ({file.stem for file in pictures_in(folder)} for folder in folders)
    speaking = {folder.name.lower() for folder in folders} in _PAIRED
    numbered = any(character.isdigit() for name in first for character in name)
    alike = all(names == first for names in others)
    if speaking or (alike and not numbered):
        listed = " and ".join(f"{folder.name}/" for folder in folders)
        seen = f"pictures in {listed} have the same names" if alike else f"{listed} are names of pairs"
        rename = "" if alike else ", and give the pictures of a pair one name"
        raise InputError(
            f"{path}: {seen}: for pairs call the folders a and b (and c){rename}; for clips call the folders clip1, "
            "clip2, … and number the frames; for classes give --transform"
        )


def read_frames(footage: Footage, size: int, before: int, memory: float) -> tuple[np.ndarray, str]:
    """Frames of one clip up to the first that cannot be read, and why it ends there.

    Raises:
        InputError: with those before it, they take more gigabytes of memory than is allowed; or a frame is no picture
            of 8 or 16 bits, where only some frames, such as dark ones, may be refused.
    """
    images, problem, total, own = list[np.ndarray](), "", 0, footage.path / "images"
    room = memory * 1e9 / (3 * size**2) - before
    try:
        stream = open_stream(own if footage.posed and own.is_dir() else footage.path, size)
        total = stream.total
        for frame in stream.frames:
            images.append(frame.image.numpy())
            if len(images) > room + 1:  # they are refused below
                break
    except InputError as error:
        of_file = not footage.is_file and error.__cause__  # of which the message does not name the clip
        problem = f"{footage.name}: {error}" if of_file else str(error)
        if of_file and isinstance(error.__cause__, InputError):  # it was read, and holds what is not taken
            raise InputError(problem) from error
    check_memory("frames", before + len(images), size, memory, before + total)
    return np.stack(images) if images else np.empty((0, 3, size, size), np.uint8), problem
