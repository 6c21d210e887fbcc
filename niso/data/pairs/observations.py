"""Observations for a trained model: arrays or pictures, as many as there are."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image

from niso.data.pairs.arrays import array_files, columns_of
from niso.data.pairs.squares import read_pictures
from niso.data.pairs.table import check_finite, check_numbers
from niso.data.photographs import EXTENSIONS, pictures_in
from niso.errors import InputError
from niso.files import write_atomically

GREY = np.array([0.299, 0.587, 0.114])
"""Luminance of red, green and blue."""
ARRAYS = (".npy", ".npz", ".safetensors")


@dataclass(frozen=True, eq=False)
class Observed:
    """Observations as a user has them.

    Attributes:
        values: (n, …) numbers, perhaps memory-mapped.
        names: of pictures, relative to their folder; empty for arrays.
        label: (n,) classes, where arrays have them.
    """

    values: np.ndarray
    names: tuple[str, ...] = ()
    label: np.ndarray | None = None


def read_observations(
    path: Path, shape: tuple[int, ...], of_bytes: bool, images: bool, hides: bool = False
) -> Observed:
    """Observations for a model.

    Args:
        path: an array file, with x where it holds several arrays; a folder of .npy; a picture or a folder of pictures.
        shape: of one observation, as the model takes them.
        of_bytes: whether the model takes values 0 … 255.
        images: whether it takes images.
        hides: whether NaN stands for what is not seen.

    Raises:
        InputError: they cannot be read, or are not what the model takes; one line says why.
    """
    if not path.exists():
        raise InputError(f"{path} does not exist: give an array file, a picture, or a folder of pictures")
    if path.suffix.lower() in ARRAYS or (path.is_dir() and array_files(path)):
        return _arrays(path, hides)
    files = [path] if path.suffix.lower() in EXTENSIONS else pictures_in(path) if path.is_dir() else []
    if not files:
        raise InputError(f"{path} holds no observations: give {', '.join(ARRAYS)}, a picture, or a folder of pictures")
    if not (images and of_bytes and shape[0] in (1, 3) and shape[1] == shape[2]):
        takes = " × ".join(map(str, shape))
        raise InputError(f"{path} holds pictures, but the model was trained on arrays of {takes}: give such arrays")
    values = read_pictures(files, shape[1])
    if shape[0] == 1:
        values = (GREY @ values.reshape(len(values), 3, -1)).round().astype(np.uint8).reshape(-1, *shape)
    folder = path if path.is_dir() else path.parent
    return Observed(values, tuple(file.relative_to(folder).as_posix() for file in files))


def _arrays(path: Path, hides: bool) -> Observed:
    arrays = columns_of(path)
    if "x" not in arrays:
        raise InputError(f"{path} has no x: name the observations x")
    values = np.asanyarray(arrays["x"])
    check_numbers(str(path), "x", values)
    if values.ndim < 2:
        raise InputError(f"{path}: x has {values.ndim} axes: give observations along the first of two or more")
    if not hides:
        check_finite(str(path), {"x": values})
    elif values.dtype.kind == "f" and np.isinf(values).any():
        raise InputError(f"{path}: x holds infinite values: repair or remove them")
    label = np.asanyarray(arrays["label"]) if "label" in arrays else None
    if label is not None and (label.dtype == object or label.shape != (len(values),)):
        raise InputError(f"{path}: label must be one number or word for each of the {len(values)} observations")
    return Observed(values, label=label)


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
