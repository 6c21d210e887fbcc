"""Prepared video: small square frames with their cameras, each read in less than a millisecond.

    FOLDER/parameters.json      `format` and everything that the preparation depended on
    FOLDER/<name>.frames        a shard: the JPEG files of a sequence's frames, then one record a frame, see RECORD
    FOLDER/<name>.json          facts of one sequence, written after its shard: without them it is not prepared
    FOLDER/index.json           {name: {frames, split, bytes}}, written when all sequences were prepared
    FOLDER/refused.json         {refused: {name: reason}, notes: {name: note}}: sequences, and frames that were left out

A name is "category/sequence" or one part only. `niso data prepare co3d` and `video` make such a folder.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

import numpy as np
import torch
from jaxtyping import Float, Int, UInt8
from PIL import Image
from torch import Tensor

from niso.data.prepared import open_folder, read_json
from niso.data.video.copies import copies_note, copies_of
from niso.data.video.sequences import TEST, TRAIN, Clip
from niso.errors import InputError

FORMAT = 1
INDEX = "index.json"

RECORD = np.dtype(
    [("start", "<i8"), ("length", "<i8"), ("number", "<i8"), ("pose", "<f8", 16), ("word", "<i8"), ("unused", "<f8", 3)]
)
"""One frame: its JPEG file in the shard, its number in the video, `Clip.poses`, and a word for its JPEG file, 0 in
folders of earlier versions; 24 bytes are not used."""


@dataclass(frozen=True)
class PreparedFrames:
    """Sequences of a prepared folder; frames are read on demand.

    Attributes:
        names: sorted.
        lengths: frames of each sequence; their numbers are consecutive.
        splits: the part of the data set of each.
        size: height and width of all frames, in pixels.
        sizes: bytes of the file of each sequence.
    """

    folder: Path
    names: list[str]
    lengths: list[int]
    splits: list[str]
    size: int
    sizes: list[int] = field(repr=False)

    def image(self, sequence: int, frame: int) -> UInt8[Tensor, "3 size size"]:
        """One frame.

        Raises:
            InputError: the shard is missing, truncated or damaged; it is named.
            IndexError: there is no such frame.
        """
        with self._opened(sequence) as file:
            record = self._records(sequence, file, frame, 1)[0]
            pixels = self._pixels(sequence, file, record)
        return torch.from_numpy(pixels).permute(2, 0, 1)  # not copied: a batch of them is

    def poses(self, sequence: int) -> Float[Tensor, "frames 4 4"]:
        """Camera-to-world poses in OpenCV's axes, float64; NaN where the data set has none."""
        return self.described(sequence)[0]

    def described(self, sequence: int) -> tuple[Float[Tensor, "frames 4 4"], Int[np.ndarray, " frames"]]:
        """Poses, and a word for each frame, the same where frames are, 0 where the folder has none."""
        with self._opened(sequence) as file:
            records = self._records(sequence, file, 0, self.lengths[sequence])
        return torch.from_numpy(records["pose"].reshape(-1, 4, 4).copy()), records["word"].copy()

    def copied(self) -> str:
        """That copies of a sequence to train on are there to test on, in words; empty where none are."""
        parts = {
            part: [name for name, split in zip(self.names, self.splits, strict=True) if split == part]
            for part in (TRAIN, TEST)
        }
        words = [self.described(sequence)[1] for sequence in range(len(self.names))]
        return copies_note(copies_of(self.names, words), parts)

    def clip(self, sequence: int) -> Clip:
        """A whole sequence."""
        with self._opened(sequence) as file:
            records = self._records(sequence, file, 0, self.lengths[sequence])
            images = np.stack([self._pixels(sequence, file, record).transpose(2, 0, 1) for record in records])
        return Clip(torch.from_numpy(images), self.poses(sequence))

    @contextmanager
    def _opened(self, sequence: int) -> Iterator[BinaryIO]:
        try:
            with open(self.folder / f"{self.names[sequence]}.frames", "rb", buffering=0) as file:
                yield file
        except OSError as error:
            raise self._damaged(sequence, error.strerror or str(error)) from error

    def _records(self, sequence: int, file: BinaryIO, first: int, count: int) -> np.ndarray:
        length = self.lengths[sequence]
        if not 0 <= first <= length - count:
            raise IndexError(f"{self.names[sequence]} has {length} frames, and none numbered {first}")
        start = self.sizes[sequence] - (length - first) * RECORD.itemsize
        return np.frombuffer(self._read(sequence, file, start, count * RECORD.itemsize), RECORD)

    def _pixels(self, sequence: int, file: BinaryIO, record: np.void) -> UInt8[np.ndarray, "size size 3"]:
        content = self._read(sequence, file, int(record["start"]), int(record["length"]))
        try:
            with Image.open(io.BytesIO(content), formats=("JPEG",)) as image:
                values = bytearray(image.tobytes())  # faster than np.array(image), which copies it twice
        except (OSError, SyntaxError) as error:
            raise self._damaged(sequence, str(error)) from error
        if image.mode != "RGB" or image.size != (self.size, self.size):
            raise self._damaged(sequence, f"a frame of {image.mode} and {image.width}×{image.height} pixels")
        return np.frombuffer(values, np.uint8).reshape(self.size, self.size, 3)

    def _read(self, sequence: int, file: BinaryIO, start: int, length: int) -> bytes:
        file.seek(max(start, 0))
        content = file.read(max(length, 0))
        if len(content) != length:
            raise self._damaged(sequence, "it was cut off")
        return content

    def _damaged(self, sequence: int, problem: str) -> InputError:
        name = self.names[sequence]
        return InputError(f"shard {self.folder / name}.frames is damaged ({problem}): remove it and prepare it again")


def open_frames(folder: Path) -> PreparedFrames:
    """Open a prepared folder.

    Raises:
        InputError: see `niso.data.prepared.open_folder`; or it has no sequence, or a shard is missing or truncated.
    """
    parameters = open_folder(folder, "frames", "`niso data prepare co3d` or `video`", FORMAT, INDEX)
    index = read_json(folder / INDEX)
    names = sorted(index)
    if not names:
        raise InputError(f"{folder} has no sequence: all were refused")
    for name in names:
        if not (isinstance(index[name], dict) and {"frames", "split", "bytes"} <= index[name].keys()):
            raise InputError(f"{folder / INDEX} lacks facts of {name}: remove it and give the same command again")
        if index[name]["split"] not in (TRAIN, TEST):
            problem = f"{name} is in the part {index[name]['split']!r}, not in {TRAIN} or {TEST}"
            raise InputError(f"{folder / INDEX}: {problem}: niso splits off validation sequences itself")
    lengths, splits, sizes = ([index[name][key] for name in names] for key in ("frames", "split", "bytes"))
    for name, size in zip(names, sizes, strict=True):
        check_shard(folder, name, size)
    return PreparedFrames(folder, names, lengths, splits, parameters["size"], sizes)


def check_shard(folder: Path, name: str, size: int) -> None:
    """Check that a shard is whole.

    Raises:
        InputError: it is missing or truncated.
    """
    path = folder / f"{name}.frames"
    actual = path.stat().st_size if path.is_file() else None
    if actual != size:
        problem = "is missing" if actual is None else f"has {actual:,} of its {size:,} bytes"
        raise InputError(f"shard {path} {problem}: remove {folder / name}.json and prepare it again")
