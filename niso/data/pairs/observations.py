"""Observations for a trained model: arrays, pictures or frames, as many as there are."""

from __future__ import annotations

import io
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from niso.data.pairs.arrays import ARRAYS, ArrayReader, columns_of
from niso.data.pairs.clips import categories_of, read_frames
from niso.data.pairs.geometry import is_of, normalised
from niso.data.pairs.paired import PairedReader, by_name, check_same_names, is_paired, pictures_of
from niso.data.pairs.pictures import classes_of
from niso.data.pairs.reading import Reading
from niso.data.pairs.squares import read_pictures
from niso.data.pairs.table import check_finite, check_numbers, plain
from niso.data.pictures import EXTENSIONS, about_pictures, pictures_in
from niso.data.prepared import PARAMETERS
from niso.data.shapes.prepared import open_maps, preparation_of, shapes_within
from niso.data.shapes.sources import SUFFIXES as MESHES
from niso.data.video.files import EXTENSIONS as VIDEOS
from niso.data.video.footage import find_footage, unread_in
from niso.errors import InputError, some_of
from niso.files.search import files_below
from niso.files.writing import write_atomically
from niso.messages import say

GREY = np.array([0.299, 0.587, 0.114])
"""Luminance of red, green and blue."""


@dataclass(frozen=True, eq=False)
class Observed:
    """Observations as a user has them.

    Attributes:
        values: (n, …) numbers, perhaps memory-mapped.
        names: of pictures, relative to their folder, of frames, CLIP/NUMBER, and of maps of prepared shapes,
            CLASS/SHAPE/NUMBER; empty for other arrays.
        label: (n,) classes, where arrays have them or folders of pictures, videos or shapes are classes.
        preparation: how maps of prepared shapes were prepared; empty for others.
    """

    values: np.ndarray
    names: tuple[str, ...] = ()
    label: np.ndarray | None = None
    preparation: Mapping[str, Any] = field(default_factory=dict)

    def taken(self, places: Sequence[int]) -> Observed:
        """The pictures at these places, in this order."""
        label = None if self.label is None else self.label[places]
        names = tuple(self.names[place] for place in places)
        return replace(self, values=self.values[places], names=names, label=label)

    def arrays(self) -> dict[str, np.ndarray]:
        """`names` and `label`, where there are any, for a file of what a model makes of the values."""
        names = {"names": np.array(self.names)} if self.names else {}
        return names if self.label is None else names | {"label": self.label}


def read_observations(
    path: Path,
    shape: tuple[int, ...],
    of_bytes: bool,
    hides: bool = False,
    view: str = "x",
    geometry: Mapping[str, Sequence[float]] | None = None,
) -> Observed:
    """Observations for a model. A line says which pictures in a folder are passed over, and that 16 bits are rounded.

    Args:
        path: an array file, with `view` where it holds several arrays; a folder of .npy; a picture, a video, or a
            folder of pictures or videos; a folder of pairs, a/ and b/, with `view`. Beside videos, folders of pictures
            are clips, too, as in a run. Or what `niso data prepare shapes` wrote: all of it, one class, or the .npy
            file of one shape.
        shape: of one observation, as the model takes them.
        of_bytes: whether the model takes values 0 … 255.
        hides: whether NaN stands for what is not seen.
        view: which of several arrays, or of pairs of pictures: x or tx.
        geometry: sketches of the points and weights that the model was trained on.

    Raises:
        InputError: they cannot be read, or are not what the model takes; one line says why.
    """
    if not path.exists():
        raise InputError(f"{path} does not exist: give an array file, a picture, a video, or a folder of either")
    if (maps := _shapes(path)) is not None:
        return maps
    if ArrayReader.fits(path, Reading()):
        return _arrays(path, hides, view, geometry or {})
    if is_paired(path):
        pairs = path
        path, files = pictures_of(pairs, view)
        say(f"{pairs} holds pairs: of these {view} is read, the pictures of {path.name}/")
    else:
        files = [path] if path.suffix.lower() in EXTENSIONS else pictures_in(path) if path.is_dir() else []
    videos = files_below(path, VIDEOS) if path.is_dir() else [path] if path.suffix.lower() in VIDEOS else []
    if not (files or videos):
        raise InputError(f"{path} holds no observations: {_instead(path)}")
    if not (len(shape) == 3 and of_bytes and shape[0] in (1, 3) and shape[1] == shape[2]):
        takes = " × ".join(map(str, shape))
        what = "videos" if videos else "pictures"
        raise InputError(f"{path} holds {what}, but the model was trained on arrays of {takes}: give such arrays")
    if note := about_pictures(path):
        say(f"! {path}: {note}")
    if videos:
        read = _frames(path, shape[1])
    else:
        folder = path if path.is_dir() else path.parent
        names = tuple(file.relative_to(folder).as_posix() for file in files)
        read = Observed(read_pictures(files, shape[1]), names, _folders_of(folder, files))
    if shape[0] == 1:
        grey = GREY @ read.values.reshape(len(read.values), 3, -1)
        return replace(read, values=grey.round().astype(np.uint8).reshape(-1, *shape))
    return read


def _instead(path: Path) -> str:
    """What to give in place of a path that holds no observations."""
    if path.suffix.lower() in MESHES or (path.is_dir() and files_below(path, MESHES)):
        return "prepare meshes by `niso data prepare shapes`, and give the folder that it wrote"
    if (path / PARAMETERS).is_file():  # a prepared folder
        if maps := min(path.glob("*/*.npy"), default=None):
            return f"give the file of a shape, such as {maps}"
        if any(path.rglob("*.frames")):
            return "give the videos that it was prepared from"
    return f"give {', '.join(ARRAYS)}, a picture, a video, or a folder of either"


def _shapes(path: Path) -> Observed | None:
    """Maps of the prepared shapes that a path holds, named CLASS/SHAPE/NUMBER, with the label CLASS; None of others.

    Raises:
        InputError: a file is damaged, or maps have several sizes.
    """
    if (found := shapes_within(path)) is None:
        return None
    folder, within = found
    maps = [open_maps(folder, name) for name in within]
    if len({part.shape[1:] for part in maps}) > 1:
        raise InputError(f"{path} has maps of several sizes: prepare it again, or give the .npy file of a shape")
    values = maps[0] if len(maps) == 1 else np.concatenate(maps)
    check_finite(str(path), {"maps": values})
    counts = [len(part) for part in maps]
    names = [f"{name}/{number}" for name, count in zip(within, counts, strict=True) for number in range(count)]
    label = np.repeat([name.partition("/")[0] for name in within], counts)
    return Observed(values, tuple(names), label, preparation_of(folder))


def _frames(path: Path, size: int) -> Observed:
    """The frames of videos and of folders of frames, named CLIP/NUMBER; those of CATEGORY/CLIP have the label
    CATEGORY, as in a run. A line says which folders are taken for clips.

    Raises:
        InputError: a frame cannot be read, or a video or picture is in none of the clips.
    """
    clips, names = list[np.ndarray](), list[str]()
    found = find_footage(path)
    if left := unread_in(path, found):
        raise InputError(f"{path}: {left}")

    for footage in found:
        frames, problem = read_frames(footage, size, 0, math.inf)
        if problem:
            raise InputError(problem)
        clips.append(frames)
        names += [f"{footage.name}/{number:06}" for number in range(len(frames))]
    if beside := [footage.name for footage in found if not footage.is_file]:
        told = f"{path} holds videos, so that folders of pictures are clips, too ({some_of(beside)})"
        say(f"{told}: to have pictures by their names, give these folders alone")
    categories = categories_of([footage.name for footage in found])
    label = np.repeat(categories, [len(frames) for frames in clips]) if categories else None
    return Observed(np.concatenate(clips), tuple(names), label)


def _folders_of(folder: Path, files: list[Path]) -> np.ndarray | None:
    """Classes of pictures by their folders, as a run reads them; None where folders are no classes, which a line says
    of those that hold classes."""
    try:
        if classes_of(folder, files):
            return np.array([file.relative_to(folder).parts[0] for file in files])
    except InputError as error:  # folders of parts, as train/ and test/
        say(f"! there are no labels: {error}")
    return None


def holds(path: Path, view: str) -> bool:
    """Whether this is an array file, a folder of them, or one of pairs of pictures, with observations of this name.

    Raises:
        InputError: the file is damaged.
    """
    if is_paired(path):
        return view in PairedReader.names(path, Reading())
    return ArrayReader.fits(path, Reading()) and view in ArrayReader.names(path, Reading())


def view_beside(first: Path, second: Path) -> str:
    """What is read of the second of two paths: x, or tx where both are one, which has that, too."""
    return "tx" if second.samefile(first) and holds(second, "tx") else "x"


def _arrays(path: Path, hides: bool, view: str, geometry: Mapping[str, Sequence[float]]) -> Observed:
    arrays = columns_of(path)
    if view not in arrays:
        one = ", or give one of these files" if path.is_dir() else ""
        raise InputError(f"{path} has no {view}, but {some_of(sorted(arrays))}: name the observations {view}{one}")
    values = plain(str(path), view, arrays[view])
    check_numbers(str(path), view, values)
    if values.ndim < 2:
        raise InputError(f"{path}: {view} has {values.ndim} axes: give observations along the first of two or more")
    if not hides:
        check_finite(str(path), {view: values})
    elif values.dtype.kind == "f" and np.isinf(values).any():
        raise InputError(f"{path}: {view} holds infinite values: repair or remove them")
    for key in geometry.keys() & arrays.keys():
        given = plain(str(path), key, arrays[key])
        check_numbers(str(path), key, given)
        if not is_of(geometry[key], normalised(key, given), given.dtype):
            problem = f"{path}: {key} are not those that the model was trained on, or in another order"
            raise InputError(f"{problem}: its functions are on those points alone; bring x to them and leave {key} out")
    label = plain(str(path), "label", arrays["label"]) if "label" in arrays else None
    if label is not None and (label.dtype == object or label.shape != (len(values),)):
        raise InputError(f"{path}: label must be one number or word for each of the {len(values)} observations")
    if label is not None and label.dtype.kind == "S":  # as `integers` reads them
        label = np.char.decode(label, "utf-8", "backslashreplace")
    return Observed(values, label=label)


def matched(*read: tuple[Path, Observed]) -> list[Observed]:
    """Observations of several paths, where those of folders of pictures come in the order of the first such folder's,
    by their names without extension; others stay as they are.

    Raises:
        InputError: two pictures in one folder have one name, or one has none of its name in another folder.
    """
    folders = {path for path, observed in read if observed.names and path.is_dir()}
    if len(folders) < 2:
        return [observed for _, observed in read]
    named = {path: by_name(path, observed.names) for path, observed in read if path in folders}
    check_same_names({str(folder): names for folder, names in named.items()})
    first = next(iter(named.values()))
    return [
        observed.taken([observed.names.index(named[path][name]) for name in first]) if path in named else observed
        for path, observed in read
    ]


def picture_paths(stem: Path, names: Sequence[str]) -> list[Path]:
    """Where pictures of these names are written: STEM-NAME.png, or STEM-NUMBER-NAME.png where two would be alike, e.g.
    of a.png and a.jpg."""
    short = [Path(name).with_suffix("").as_posix().replace("/", "-") for name in names]
    if len(set(short)) < len(short):
        short = [f"{number}-{name}" for number, name in enumerate(short)]
    return [stem.with_name(f"{stem.name}-{name}.png") for name in short]


def write_pictures(paths: Sequence[Path], values: np.ndarray) -> None:
    """Write images (n, 1 or 3, H, W) with values 0 … 255 as PNG files.

    Raises:
        OSError: one cannot be written.
    """
    for path, image in zip(paths, values, strict=True):
        pixels = image.clip(0, 255).round().astype(np.uint8).transpose(1, 2, 0)
        content = io.BytesIO()
        Image.fromarray(pixels.squeeze(-1) if pixels.shape[-1] == 1 else pixels).save(content, "png")
        write_atomically(path, content.getvalue())
