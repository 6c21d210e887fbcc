"""MNIST from its four idx files, local or downloaded once, and scikit-learn's 8×8 digits where there is no network."""

from __future__ import annotations

import gzip
import math
import zlib
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Int, UInt8
from torch import Tensor

from niso.cache import cached
from niso.errors import InputError
from niso.files.paths import no_folder

SIDE = 28
PADDING = 6
"""Black pixels around every digit, on each side, in all experiments: 28 becomes 40 and `digits`' 12 becomes 24."""

FILES = {
    "train-images-idx3-ubyte": "sha256:440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
    "train-labels-idx1-ubyte": "sha256:3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
    "t10k-images-idx3-ubyte": "sha256:8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
    "t10k-labels-idx1-ubyte": "sha256:f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
}
"""Canonical names, and checksums of the compressed files that the mirrors hold (<name>.gz)."""

LARGEST = 256 << 20
"""Bytes of an unzipped file; MNIST's largest has 47 million."""

MIRRORS = (
    "https://ossci-datasets.s3.amazonaws.com/mnist/",
    "https://storage.googleapis.com/cvdf-datasets/mnist/",
    "https://raw.githubusercontent.com/fgnt/mnist/master/",
)


MOST_CLASSES = 100_000
"""A head has a score for each class, used or not."""

DARKEST = 32
"""Images none of whose pixels reach this are masks, or have another range than 0 … 255, as scikit-learn's digits."""


class Digits(NamedTuple):
    """Images of digits, black 0 to white 255, and their labels 0 … 9, on the CPU."""

    train_images: UInt8[Tensor, "train side side"]
    train_labels: Int[Tensor, " train"]
    test_images: UInt8[Tensor, "test side side"]
    test_labels: Int[Tensor, " test"]


def check_digits(name: str, data: object) -> Digits:
    """What the function of a data set of this name returned, if it is as `Digits` says.

    Raises:
        InputError: it is not: no `Digits`; images that are not uint8, nearly black, not square or of two sizes; labels
            that are not one whole number for each image, or are all alike; classes to test on of which there is
            nothing to train on.
    """
    if not isinstance(data, Digits):
        kind = type(data).__name__
        raise InputError(f"digits {name}: their function must return a niso.data.digits.mnist.Digits, not {kind}")
    for part, images, labels in (("train", *data[:2]), ("test", *data[2:])):
        if not isinstance(images, Tensor) or images.dtype != torch.uint8 or images.ndim != 3 or len(images) == 0:
            kind = str(images.dtype) if isinstance(images, Tensor) else type(images).__name__
            got = f"{kind} of {tuple(getattr(images, 'shape', ()))}"
            raise InputError(f"digits {name}: {part}_images must be uint8 tensors (n, side, side), not {got}")
        if images.shape[1:] != (data.train_images.shape[1],) * 2:
            sides = "×".join(map(str, images.shape[1:]))
            raise InputError(f"digits {name}: {part}_images must be square, and all of one size, not {sides}")
        whole = isinstance(labels, Tensor) and not (labels.is_floating_point() or labels.dtype == torch.bool)
        if not whole or labels.shape != images.shape[:1] or labels.min() < 0:
            raise InputError(f"digits {name}: {part}_labels must be {len(images)} whole numbers from 0 on")
        if labels.max() >= MOST_CLASSES:
            raise InputError(f"digits {name}: {part}_labels reach {labels.max()}: number the classes 0, 1, 2, …")
    if (white := int(data.train_images.max())) < DARKEST:
        raise InputError(f"digits {name}: train_images reach {white}, and white is 255: scale them to 0 … 255")
    if len(classes := data.train_labels.unique()) < 2:
        raise InputError(f"digits {name}: all train_labels are {int(classes)}: give two classes or more")
    if new := set(data.test_labels.tolist()) - set(data.train_labels.tolist()):
        raise InputError(f"digits {name}: no training image is of the test images' class {min(new)}")
    return data._replace(train_labels=data.train_labels.long(), test_labels=data.test_labels.long())


def mnist(data_dir: Path | None = None) -> Digits:
    """The 60,000 training and 10,000 test digits of MNIST, 28×28 pixels, not padded.

    Args:
        data_dir: a folder that holds the four idx files, gzipped or not, itself or in MNIST/raw (torchvision's
            place). Other data of the same format and size, e.g. Fashion-MNIST, may be given: checksums apply to
            downloads only. By default the files are fetched once into the user's cache folder, from several mirrors
            in turn; a file is complete and verified when it appears there.

    Raises:
        InputError: a file is missing, damaged, truncated or of the wrong shape, or cannot be downloaded.
    """
    paths = [_local(data_dir, name) for name in FILES] if data_dir is not None else [_cached(name) for name in FILES]
    remedy = "fetch it again" if data_dir is not None else "delete it and run again to download it anew"
    images_and_labels = []
    for images_path, labels_path in (paths[:2], paths[2:]):
        images = _read(images_path, (None, SIDE, SIDE), remedy)
        labels = _read(labels_path, (None,), remedy).long()
        if len(images) != len(labels):
            raise InputError(
                f"{images_path} has {len(images)} images but {labels_path} has {len(labels)} labels: {remedy}"
            )
        if len(images) == 0 or labels.max() > 9:
            problem = "is empty" if len(images) == 0 else f"has a label {int(labels.max())}, not a digit"
            raise InputError(f"{labels_path} {problem}: {remedy}")
        images_and_labels += [images, labels]
    return Digits(*images_and_labels)


def embedded() -> Digits:
    """scikit-learn's 1,797 digits, enlarged from 8×8 to 12×12 pixels (bilinear): no network is needed.

    Padded by PADDING they fill half of a 24×24 grid's side, as MNIST's 20×20 boxes do of 40×40: homographies push
    equally little over the border. The split follows the file's order, by writers as far as it goes: the first 1,297
    train, the last 500 test.
    """
    pixels, labels = _small_digits()
    small = torch.from_numpy(np.asarray(pixels, np.float32)).view(-1, 1, 8, 8) / 16
    large = torch.nn.functional.interpolate(small, size=(12, 12), mode="bilinear", align_corners=False)
    images = (large[:, 0] * 255).round().to(torch.uint8)
    targets = torch.from_numpy(np.asarray(labels, np.int64))
    return Digits(images[:1297], targets[:1297], images[1297:], targets[1297:])


@cache
def _small_digits() -> tuple[Any, Any]:
    """Pixels and labels of scikit-learn's digits, which it reads from text each time."""
    from sklearn.datasets import load_digits

    return load_digits(return_X_y=True)


def pad(images: UInt8[Tensor, "n side side"], padding: int = PADDING) -> UInt8[Tensor, "n padded padded"]:
    """Images with `padding` black pixels added on each side."""
    return torch.nn.functional.pad(images, (padding,) * 4)


def _local(folder: Path, name: str) -> Path:
    if not folder.is_dir():
        remedy = "give --data-dir a folder that holds MNIST's idx files"
        raise InputError(f"data folder {folder} {no_folder(folder)}: {remedy}")
    for place in (folder, folder / "MNIST" / "raw"):
        for file in (place / name, place / f"{name}.gz"):
            if file.is_file():
                return file
    raise InputError(f"{name}(.gz) is neither in {folder} nor in MNIST/raw below: put MNIST's four idx files there")


def _cached(name: str) -> Path:
    import pooch  # not everyone downloads

    cache = cached("mnist")
    problems = []
    for mirror in MIRRORS:
        try:  # pooch checks a temporary file and then moves it
            downloader = pooch.HTTPDownloader(timeout=30)
            url = f"{mirror}{name}.gz"
            return Path(pooch.retrieve(url, FILES[name], fname=f"{name}.gz", path=cache, downloader=downloader))
        except (OSError, ValueError) as error:  # requests' errors are OSErrors; a wrong checksum is a ValueError
            problems.append(f"{mirror}: {getattr(error, 'strerror', None) or type(error).__name__}")
    raise InputError(
        f"{name}.gz is not in {cache} and could not be downloaded ({'; '.join(problems)}): "
        "connect to the network, or give --data-dir a folder with MNIST's four idx files"
    )


def _content(path: Path) -> bytes:
    """What a file holds, unzipped, and no more than any idx file here: a small gzipped file may hold gigabytes."""
    content = bytearray()
    with path.open("rb") as file:
        zipped = file.read(2) == b"\x1f\x8b"
        file.seek(0)
        unzipped = gzip.GzipFile(fileobj=file) if zipped else file
        while len(content) <= LARGEST and (part := unzipped.read(1 << 20)):
            content += part
    if len(content) > LARGEST:
        raise OSError(f"it holds more than {LARGEST >> 20} MiB")
    return bytes(content)


def _read(path: Path, expected: tuple[int | None, ...], remedy: str) -> UInt8[Tensor, "*shape"]:
    """An idx file of bytes: two zeros, type 8 (bytes), the number of axes, their sizes (big-endian), the data."""
    try:
        content = _content(path)
    except (OSError, EOFError, zlib.error) as error:
        raise InputError(f"{path} cannot be read or is damaged ({error}): {remedy}") from error
    axes, header = len(expected), 4 + 4 * len(expected)
    if len(content) < header or content[:4] != bytes((0, 0, 8, axes)):
        raise InputError(f"{path} is not an idx file of bytes with {axes} axes: {remedy}")
    shape = tuple(int(size) for size in np.frombuffer(content, ">u4", axes, 4))
    if any(want not in (None, got) for want, got in zip(expected, shape, strict=True)):
        raise InputError(f"{path} holds images of {shape[1]}×{shape[2]} pixels, not {SIDE}×{SIDE}: {remedy}")
    if len(content) - header != math.prod(shape):
        raise InputError(
            f"{path} has {len(content) - header:,} of the {math.prod(shape):,} bytes its header announces, it was cut "
            f"off or is damaged: {remedy}"
        )
    return torch.from_numpy(np.frombuffer(content, np.uint8, offset=header).reshape(shape).copy())
