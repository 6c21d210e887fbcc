"""Single pictures, to which niso applies transformations itself."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from niso.data.pairs.near_copies import pairs_of_copies
from niso.data.pairs.reader import Reader
from niso.data.pairs.reading import Reading
from niso.data.pairs.squares import check_memory, check_usable, read_pictures
from niso.data.pairs.table import FEWEST, Table
from niso.data.photographs import crops, shipped
from niso.data.pictures import about_pictures, open_picture, pictures_in, size_of, word_of
from niso.data.video.files import EXTENSIONS as VIDEOS
from niso.errors import InputError, counted, some_of
from niso.files.digests import digest_of_files
from niso.files.search import files_below
from niso.random import step_seed

CROPS = 10_000
"""Crops of few large pictures, in all."""
FEW = 1_000
"""Pictures fewer than these are cut into crops where they are large and have no labels."""
SMALL = 32
"""Height and width of pictures as near copies are looked for among them."""
COMPARED = 1_000
"""Pictures among which these are looked for, at most."""
NAME = "the photographs of scikit-image and scikit-learn"

_PARTS = {"train", "training", "val", "valid", "validation", "test", "testing"}
"""Folders that are no classes."""


class PictureReader(Reader):
    """Pictures in a folder and below it. Folders of classes label them."""

    takes = "a folder of pictures, with --transform"
    reads = frozenset({"size", "crops"})

    @classmethod
    def fits(cls, path: Path, reading: Reading) -> bool:
        return path.is_dir() and bool(pictures_in(path))

    @classmethod
    def names(cls, path: Path, reading: Reading) -> set[str]:
        return {"x", "label"} if classes_of(path, pictures_in(path)) else {"x"}

    @classmethod
    def read(cls, path: Path, reading: Reading, size: int) -> Table:
        files = pictures_in(path)
        classes = classes_of(path, files)
        few = len(files) < FEW and not classes and np.median([min(size_of(file)) for file in files]) >= 2 * size
        count = (CROPS if few else 0) if reading.crops is None else reading.crops
        label = np.array([classes.index(file.relative_to(path).parts[0]) for file in files]) if classes else None
        note = "; ".join(filter(None, [_loose(path, files), _videos(path), about_pictures(path)]))
        if count:
            table = cropped(str(path), files, count, size, reading.memory)
            each = len(table) // len(files)
            label = None if label is None else label.repeat(each)
            return replace(table, label=label, classes=classes, note="; ".join(filter(None, [note, table.note])))
        if len(files) < FEWEST:
            beside = f" ({videos})" if (videos := _videos(path)) else ""
            raise InputError(
                f"{path} holds {len(files)} pictures: at least {FEWEST} are needed, or --crops of larger ones{beside}"
            )
        check_memory("pictures", len(files), size, reading.memory)
        x = read_pictures(files, size)
        word = digest_of_files(files, path)
        return Table(str(path), "images", {"x": x}, label=label, classes=classes, note=note, files=word)


def shipped_photographs(reading: Reading, size: int) -> Table:
    """Crops of the photographs that come with scikit-image and scikit-learn.

    Raises:
        InputError: none are asked for, or they take too much memory.
    """
    if reading.crops == 0:
        raise InputError(f"--crops 0 takes pictures whole, and {NAME} are too few: give --data, or another --crops")
    return cropped(NAME, shipped(), CROPS if reading.crops is None else reading.crops, size, reading.memory)


def cropped(name: str, files: list[Path], count: int, size: int, memory: float) -> Table:
    """Random crops of pictures, as many of each. Those of copies of one picture have one source.

    Raises:
        InputError: there are fewer than three pictures, or some cannot be read or are too small.
    """
    if len(files) < 3:
        raise InputError(f"{name} holds {len(files)} pictures: 3 or more are needed, to train, validate and test on")
    each = max(2, -(-count // len(files)))
    check_memory("crops", each * len(files), size, memory)
    pixels = np.empty((len(files), each, 3, size, size), np.uint8)
    source, seen, refused = list[int](), dict[str, int](), dict[Path, InputError]()
    small = torch.zeros(len(files), 3, SMALL, SMALL)
    for number, file in enumerate(files):
        try:
            picture = open_picture(file)
            drawn = crops([picture], each, size, step_seed(0, number, "crops") % (1 << 32))
        except InputError as error:
            refused[file] = error
            continue
        source.append(seen.setdefault(word_of(picture), len(seen)))
        shrunk = picture.convert("RGB").resize((SMALL, SMALL), Image.Resampling.BOX)
        small[number] = torch.from_numpy(np.array(shrunk, np.float32)).movedim(2, 0)
        squares = drawn.numpy().reshape(each, size, size, 3).transpose(0, 3, 1, 2)
        pixels[number] = ((squares + 1) * 127.5).round()
    check_usable(refused)
    x = pixels.reshape(-1, 3, size, size)
    sources, word = np.array(source).repeat(each), digest_of_files(files)
    note = about_copies(files, small, torch.tensor(source))
    return Table(name, "images", {"x": x}, source=sources, cropped=True, files=word, note=note)


def about_copies(files: list[Path], small: Tensor, source: Tensor) -> str:
    """That crops of near copies of a picture may be in two parts; empty where none are found.

    Args:
        small: pictures, of which `COMPARED` are compared.
        source: equal numbers of equal ones.
    """
    pairs = pairs_of_copies(small[:COMPARED], source[:COMPARED]).tolist()
    if not pairs:
        return ""
    named = some_of([f"{files[first].name} and {files[second].name}" for first, second in pairs])
    return f"some pictures nearly equal others ({named}), and crops of both may be in two parts: keep one of each"


def classes_of(path: Path, files: list[Path]) -> tuple[str, ...]:
    """Names of the folders of classes; empty where there are not two, some pictures are in none, all are alone, or
    they are train/, test/ and the like.

    Raises:
        InputError: these, or folders that all hold the same folders, have folders of pictures, which may be classes.
    """
    below = dict[str, set[str]]()  # "" for pictures of the folder itself
    for file in files:
        first, *others = file.relative_to(path).parts
        if not others:
            return ()
        below.setdefault(first, set()).add(others[0] if len(others) > 1 else "")
    names, within = sorted(below), below[min(below)]
    if len(names) < 2 or len(names) == len(files):
        return ()
    if are_parts(names):
        if set.union(*below.values()) == {""}:
            return ()
        raise InputError(
            f"{path}: its folders ({some_of(names)}) are parts of a data set, but classes are the outermost folders: "
            "give one of them as DATA"
        )
    if len(within) > 1 and "" not in within and all(folders == within for folders in below.values()):
        raise InputError(
            f"{path}: each of its folders ({some_of(names)}) holds the same folders ({some_of(sorted(within))}), but "
            "classes are the outermost folders: give one of them as DATA"
        )
    return tuple(names)


def are_parts(names: Collection[str]) -> bool:
    """Whether folders have the names of parts of a data set, and not of classes."""
    return _PARTS.issuperset(name.lower() for name in names)


def about_parts(names: Collection[str]) -> str:
    """Why these folders label nothing, and what becomes of them, where they are several parts of a data set; else
    empty."""
    if len(names) < 2 or not are_parts(names):
        return ""
    trained = min(names, key=lambda name: (not name.lower().startswith("train"), name))
    return (
        f"there are no labels, for {some_of(sorted(names))} are parts of a data set: rename them if not; all are read "
        f"as one, and what is held out is drawn anew: to keep the others unseen, give {trained}/ alone as DATA"
    )


def _videos(path: Path) -> str:
    """That there are videos among the pictures, which are not read; empty where there are none."""
    left = [str(file.relative_to(path)) for file in files_below(path, VIDEOS)]
    return f"{counted(len(left), 'video')} among the pictures not read ({some_of(left)})" if left else ""


def _loose(path: Path, files: list[Path]) -> str:
    """Why folders are no classes; empty where they are, or there are no two."""
    loose = [file.name for file in files if file.parent == path]
    folders = {file.relative_to(path).parts[0] for file in files if file.parent != path}
    if len(folders) == 1 and not loose:
        (outer,) = folders
        inner = sorted({file.relative_to(path / outer).parts[0] for file in files if file.parent != path / outer})
        within = f"all pictures lie in {outer}/, whose folders ({some_of(inner)}) may be classes"
        return f"there are no labels, for {within}: give {path / outer} as DATA" if len(inner) > 1 else ""
    if not loose and (parts := about_parts(folders)):
        return parts
    if len(folders) < 2 or not (loose or len(folders) == len(files)):
        return ""
    if not loose:
        return "there are no labels, for each folder holds one picture"
    return f"there are no labels, for {some_of(loose)} lies beside the folders: move it into one, or remove it"
