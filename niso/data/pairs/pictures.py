"""Single pictures, to which niso applies transformations itself."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
from PIL import Image

from niso.data.pairs.squares import check_memory, read_pictures
from niso.data.pairs.table import FEWEST, Reader, Reading, Table
from niso.data.photographs import crops, open_photograph, pictures_in, shipped
from niso.errors import InputError
from niso.random import step_seed

CROPS = 10_000
"""Crops of few large pictures, in all."""
FEW = 1_000
"""Pictures fewer than these are cut into crops where they are large and have no labels."""
NAME = "the photographs of scikit-image and scikit-learn"


class PictureReader(Reader):
    """Pictures in a folder and below it. Folders of classes label them."""

    takes = "a folder of pictures, with --transform"
    reads = frozenset({"size", "crops"})

    @classmethod
    def fits(cls, path: Path, reading: Reading) -> bool:
        return path.is_dir() and bool(pictures_in(path))

    @classmethod
    def names(cls, path: Path, reading: Reading) -> set[str]:
        return {"x", "label"} if _classes(path, pictures_in(path)) else {"x"}

    @classmethod
    def read(cls, path: Path, reading: Reading, size: int) -> Table:
        files = pictures_in(path)
        classes = _classes(path, files)
        few = len(files) < FEW and not classes and np.median([_shorter_side(file) for file in files]) >= 2 * size
        count = (CROPS if few else 0) if reading.crops is None else reading.crops
        label = np.array([classes.index(file.relative_to(path).parts[0]) for file in files]) if classes else None
        if count:
            table = cropped(str(path), files, count, size, reading.memory)
            return table if label is None else replace(table, label=label[table.source], classes=classes)
        if len(files) < FEWEST:
            raise InputError(
                f"{path} holds {len(files)} pictures: at least {FEWEST} are needed, or --crops of larger ones"
            )
        check_memory("pictures", len(files), size, reading.memory)
        return Table(str(path), "images", {"x": read_pictures(files, size)}, label=label, classes=classes)


def shipped_photographs(reading: Reading, size: int) -> Table:
    """Crops of the photographs that come with scikit-image and scikit-learn."""
    return cropped(NAME, shipped(), reading.crops or CROPS, size, reading.memory)


def cropped(name: str, files: list[Path], count: int, size: int, memory: float) -> Table:
    """Random crops of pictures, as many of each.

    Raises:
        InputError: there are fewer than three pictures, or one cannot be read or is too small.
    """
    if len(files) < 3:
        raise InputError(f"{name} holds {len(files)} pictures: 3 or more are needed, to train, validate and test on")
    each = max(2, -(-count // len(files)))
    check_memory("crops", each * len(files), size, memory)
    pixels = np.empty((len(files), each, 3, size, size), np.uint8)
    for number, file in enumerate(files):
        drawn = crops([open_photograph(file)], each, size, step_seed(0, number, "crops") % (1 << 32))
        squares = drawn.numpy().reshape(each, size, size, 3).transpose(0, 3, 1, 2)
        pixels[number] = ((squares + 1) * 127.5).round()
    source = np.arange(len(files)).repeat(each)
    return Table(name, "images", {"x": pixels.reshape(-1, 3, size, size)}, source=source)


def _classes(path: Path, files: list[Path]) -> tuple[str, ...]:
    """Names of the folders of classes; empty where there are not two, or some pictures are in none."""
    parts = [file.relative_to(path).parts for file in files]
    names = sorted({part[0] for part in parts})
    return tuple(names) if len(names) > 1 and all(len(part) > 1 for part in parts) else ()


def _shorter_side(file: Path) -> int:
    """The shorter side of a picture in pixels, by its header; 0 where that cannot be read."""
    try:
        with Image.open(file) as image:
            return min(image.size)
    except Exception:  # Pillow raises errors of many kinds; reading names the file
        return 0
