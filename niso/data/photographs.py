"""Photographs as many small square crops: functions on a grid, for the torus and the sphere."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float
from PIL import Image
from torch import Tensor

from niso.data.pictures import EXTENSIONS, open_picture, pictures_in, size_of, word_of
from niso.errors import InputError
from niso.files.paths import no_folder

TRAIN = (
    "skimage/astronaut.png",
    "skimage/chelsea.png",
    "skimage/hubble_deep_field.jpg",
    "skimage/ihc.png",
    "skimage/motorcycle_left.png",
    "skimage/retina.jpg",
    "skimage/brick.png",
    "skimage/camera.png",
    "skimage/gravel.png",
    "skimage/moon.png",
    "sklearn/china.jpg",
)
TEST = ("skimage/coffee.png", "skimage/rocket.jpg", "skimage/grass.png", "sklearn/flower.jpg")
"""Photographs shipped inside scikit-image and scikit-learn; held-out ones show other scenes."""

DAMAGED = 0.01
"""Share of a folder's images that may be unreadable; they are left out with a warning."""


def photographs(data_dir: Path | None = None) -> tuple[list[Image.Image], list[Image.Image]]:
    """Training and held-out photographs, in RGB.

    Args:
        data_dir: a folder of images, searched recursively; a fifth of them (in sorted order, every fifth) is held
            out. By default the photographs shipped inside scikit-image and scikit-learn.

    Images that cannot be read are left out with a warning that counts them, if they are at most 1 % of the folder's.
    Of images whose pixels are the same the first one alone is taken, with a warning that counts the others, so that no
    copy of what is trained on is held out.

    Raises:
        InputError: the folder is missing or has fewer than two images, they do not fit into memory, or more than 1 %
            of them cannot be read.
    """
    if data_dir is None:
        return [open_picture(_shipped(name)) for name in TRAIN], [open_picture(_shipped(name)) for name in TEST]
    if not data_dir.is_dir():
        remedy = "give a folder of images, to a run in its config.yaml"
        raise InputError(f"data folder {data_dir} {no_folder(data_dir)}: {remedy}")
    files = sorted(pictures_in(data_dir))
    if len(files) < 2:
        raise InputError(
            f"data folder {data_dir} holds {len(files)} images ({', '.join(sorted(EXTENSIONS))}): "
            "at least 2 are needed, one of them to hold out"
        )
    needed, most = sum(4 * width * height for width, height in map(size_of, files)), _room()  # Pillow's RGB has 4 bytes
    if needed > most:
        raise InputError(
            f"the {len(files):,} images of {data_dir} take {needed / 1e9:.1f} GB of memory, and {most / 1e9:.1f} GB "
            "can be used: give fewer of them, or smaller copies"
        )
    images, problems = dict[Path, Image.Image](), list[str]()
    for file in files:
        try:
            images[file] = open_picture(file)
        except InputError as error:
            problems.append(str(error))
            if len(problems) > DAMAGED * len(files):
                break
    if len(problems) > DAMAGED * len(files):
        several = f"; more than {DAMAGED:.0%} of the {len(files)} images are like this" if len(problems) > 1 else ""
        raise InputError(problems[0] + several)
    if problems:
        count = f"{len(problems)} of {len(files):,} images are left out" if len(problems) > 1 else "1 image is left out"
        warnings.warn(f"{count}: {problems[0]}", stacklevel=2)
    if copies := _copies(images):
        copy, first = next(iter(copies.items()))
        count = f"{len(copies)} of {len(files):,} images are copies" if len(copies) > 1 else "1 image is a copy"
        warnings.warn(f"{count} and left out: {copy} is as {first}", stacklevel=2)
    files, taken = ([file for file in of if file not in copies] for of in (files, images))
    if len(taken) < 2:
        raise InputError(f"data folder {data_dir}: all images are the same: give two or more that differ")
    held_out = set(files[4::5]).intersection(taken) or {taken[-1]}
    parts = ([file for file in taken if (file in held_out) is tested] for tested in (False, True))
    train, test = ([images[file] for file in part] for part in parts)
    return train, test


def _copies(images: Mapping[Path, Image.Image]) -> dict[Path, Path]:
    """Images with the pixels of an earlier one, and which one that is."""
    first = dict[str, Path]()
    found = {file: first.setdefault(word_of(image), file) for file, image in images.items()}
    return {file: earlier for file, earlier in found.items() if earlier != file}


def _room() -> float:
    """Bytes that pictures may take: half of the machine's memory, or 8 GB where a system does not tell it."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2
    except (AttributeError, OSError, ValueError):  # as Windows
        return 8e9


def shipped() -> list[Path]:
    """Files of the photographs shipped inside scikit-image and scikit-learn."""
    return [_shipped(name) for name in (*TRAIN, *TEST)]


def _shipped(name: str) -> Path:
    package, file = name.split("/")
    spec = find_spec(package)
    assert spec is not None and spec.origin is not None  # both are dependencies
    return Path(spec.origin).parent / {"skimage": "data", "sklearn": "datasets/images"}[package] / file


def crops(
    images: list[Image.Image], count: int, size: int, seed: int, smallest: int = 2
) -> Float[Tensor, "count points 3"]:
    """Random square crops, each averaged down to size × size, in [−1, 1], points in row-major order.

    Args:
        count: number of crops; the images take turns.
        seed: of the crops' places and sizes. The side of a crop is log-uniform between `smallest` × size and the
            image's shorter side, so that all scales of detail are equally frequent.

    Raises:
        InputError: an image is smaller than size × size pixels.
    """
    for image in images:
        if min(image.size) < size:
            name = f"image {image.info.get('path', '')}".strip()
            pixels = f"{image.width}×{image.height} pixels"
            raise InputError(f"{name} ({pixels}) is too small for {size}×{size} crops: remove it")
    generator = np.random.default_rng(seed)
    pool = np.empty((count, size * size, 3), np.uint8)
    for index in range(count):
        image = images[index % len(images)]
        shortest = min(image.size)
        smallest_side = min(smallest * size, shortest)
        side = smallest_side * (shortest / smallest_side) ** generator.random()
        left, top = (number * (length - side) for number, length in zip(generator.random(2), image.size, strict=True))
        crop = image.resize((size, size), Image.Resampling.BOX, (left, top, left + side, top + side))
        pool[index] = np.frombuffer(crop.tobytes(), np.uint8).reshape(-1, 3)
    return torch.from_numpy(pool / np.float32(127.5) - 1)
