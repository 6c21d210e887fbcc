"""Clips: videos, or folders of frames; neighbouring frames are pairs, without any label."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from niso.data.pairs.squares import check_memory
from niso.data.pairs.table import FEWEST, Reader, Reading, Table
from niso.data.photographs import own_pictures, pictures_in
from niso.data.video.files import EXTENSIONS as VIDEOS
from niso.data.video.footage import Footage, find_footage
from niso.data.video.stream import open_stream
from niso.errors import InputError


class ClipReader(Reader):
    """A video, a folder of videos, or a folder with a folder of frames for each clip."""

    takes = "a folder of clips (videos, or a folder of frames each)"
    reads = frozenset({"size", "skip"})

    @classmethod
    def fits(cls, path: Path, reading: Reading) -> bool:
        if path.is_file():
            return path.suffix.lower() in VIDEOS
        videos = any(file.suffix.lower() in VIDEOS for file in path.iterdir() if file.is_file())
        folders = any(folder.is_dir() and pictures_in(folder) for folder in path.iterdir())
        return reading.transform is None and (videos or (folders and not own_pictures(path)))

    @classmethod
    def names(cls, path: Path, reading: Reading) -> set[str]:
        return {"x", "clip"}

    @classmethod
    def read(cls, path: Path, reading: Reading, size: int) -> Table:
        frames, clip, problems = list[np.ndarray](), list[int](), list[str]()
        for footage in find_footage(path):
            images, problem = _frames(footage, size)
            if problem:
                problems.append(problem)
            if len(images) < 2:
                problems.append(f"{footage.name} has {len(images)} frames and is left out")
                continue
            check_memory("frames", len(clip) + len(images), size, reading.memory)
            clip += [len(frames)] * len(images)
            frames.append(images)
        if len(clip) < FEWEST:
            reason = f" ({problems[0]})" if problems else ""
            raise InputError(
                f"{path} holds {len(clip)} frames that can be paired: at least {FEWEST} are needed{reason}"
            )
        views, note = {"x": np.concatenate(frames)}, "; ".join(problems)
        return Table(str(path), "images", views, clip=np.array(clip), note=note, decoded=True)


def _frames(footage: Footage, size: int) -> tuple[np.ndarray, str]:
    """Frames of one clip up to the first that cannot be read, and why it ends there."""
    images, problem = list[np.ndarray](), ""
    try:
        images.extend(frame.image.numpy() for frame in open_stream(footage.path, size).frames)  # one by one
    except InputError as error:
        problem = str(error)
    return np.stack(images) if images else np.empty((0, 3, size, size), np.uint8), problem
