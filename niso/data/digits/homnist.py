"""homNIST: MNIST under random homographies. The test set, generated or published.

All images are float32 in [−1, 1] with black, −1, around them. That is the published set's [0, 1] rescaled: bilinear
warps commute with it. Test set: MacDonald, Ramasinghe, Lucey, "Enabling equivariance for arbitrary Lie groups",
CVPR 2022; every test digit, padded to 40×40, under 32 homographies.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
import torch
from jaxtyping import Float, Int, Shaped, UInt8
from torch import Tensor

from niso.data.digits.matlab import read_arrays
from niso.data.hdf5 import h5py_for
from niso.data.squares import signed
from niso.errors import InputError
from niso.geometry.action import Transformations
from niso.geometry.homographies import WalkedHomographies
from niso.random import step_generator

COPIES = 32
"""Homographies of a digit; consecutive in both forms of the test set."""

SEED = 2022
"""Of the generated test set. The published one's is unknown: they are equal in distribution only."""

PUBLISHED_DISTRIBUTION = WalkedHomographies()

_BLOCK = 1000  # digits whose j-th homographies are drawn together, whatever else is drawn

_REMEDY = "fetch the homNIST test set again, or leave it out to generate one"


class PerturbedBatch(NamedTuple):
    """A batch of the test set: images in [−1, 1], labels, and H in the convention of `geometry.homographies`.

    A published file's matrices are passed on as they are; its convention is not documented.
    """

    images: Float[Tensor, "batch 1 side side"]
    labels: Int[Tensor, " batch"]
    transformations: Shaped[Tensor, "batch ..."]


@runtime_checkable
class PerturbedDigits(Protocol):
    """A fixed sequence of perturbed digits, read in batches; the same at every pass, batch size and device."""

    def __len__(self) -> int: ...

    def batches(self, size: int, device: torch.device | str = "cpu") -> Iterator[PerturbedBatch]:
        """All examples in order, `size` (the last batch: what is left) at a time, on this device.

        Raises:
            ValueError: size is less than 1.
        """
        ...


@dataclass(frozen=True, eq=False)
class GeneratedTestSet:
    """The test set made from test digits by the published sampler, batch by batch.

    Homographies are drawn on the CPU: the j-th of 1,000 digits at a time, each time from a generator of its own, seeded
    by (seed, block, j). So the j-th homography of the i-th digit is the same for every batch size, device, number of
    digits and `copies`.

    Args:
        images: padded test digits.
        copies: the first so many of each digit's 32 homographies. The 10k subset is `copies=1`.
        action: other transformations, in place of the published sampler's homographies.

    Raises:
        ValueError: copies is not between 1 and 32, or images and labels differ in number.
    """

    images: UInt8[Tensor, "digits side side"]
    labels: Int[Tensor, " labels"]
    copies: int = COPIES
    seed: int = SEED
    action: Transformations = PUBLISHED_DISTRIBUTION

    def __post_init__(self) -> None:
        _check_copies(self.copies)
        if len(self.images) != len(self.labels):
            raise ValueError(f"{len(self.images)} images but {len(self.labels)} labels")

    def __len__(self) -> int:
        return len(self.images) * self.copies

    def transformations(self, block: int) -> Shaped[Tensor, "examples ..."]:
        """Transformations of digits 1000 × block onwards, `copies` of each."""
        digits = len(self.images) - block * _BLOCK
        drawn = []
        for copy in range(self.copies):
            generator = step_generator(self.seed, block * COPIES + copy, "homnist")
            drawn.append(self.action.sample(_BLOCK, generator)[:digits])
        return torch.stack(drawn, dim=1).flatten(0, 1)

    def batches(self, size: int, device: torch.device | str = "cpu") -> Iterator[PerturbedBatch]:
        """See PerturbedDigits."""
        if size < 1:
            raise ValueError(f"a batch holds at least 1 example, got size {size}")
        pending = self.transformations(0)
        start, block = 0, 1
        while start < len(self):
            while len(pending) < min(size, len(self) - start):
                pending = torch.cat((pending, self.transformations(block)))
                block += 1
            now, pending = pending[:size], pending[size:]
            digit = torch.arange(start, start + len(now)) // self.copies
            images = signed(self.images[digit.to(self.images.device)].to(device))[:, None]
            labels = self.labels[digit.to(self.labels.device)].to(device)
            yield PerturbedBatch(self.action.act(images, now), labels, now)
            start += len(now)


def _check_copies(copies: int) -> None:
    if not 1 <= copies <= COPIES:
        raise ValueError(f"copies must lie between 1 and {COPIES}, got {copies}")


class PublishedTestSet:
    """The published .mat file: keys img_data, labels (N×1), hom_matrices, 32 consecutive images a digit.

    MATLAB 7.3 (HDF5) is read batch by batch and needs h5py. Version 5 is read whole, in the file's own type.
    Images may be (N, n, n), with axes of length 1 anywhere, or (N, n²) in row-major order; uint8, or floats in [0, 1].

    Args:
        copies: number of each digit's 32 images to take, the first ones. The 10k subset is `copies=1`.

    Raises:
        InputError: the file is missing, damaged, of another format, incomplete, or h5py is missing.
        ValueError: copies is not between 1 and 32.
    """

    def __init__(self, path: Path, copies: int = COPIES) -> None:
        _check_copies(copies)
        self.path = path
        images, labels, matrices = _open(path)
        try:
            labels = np.asarray(labels[()]).reshape(-1)
        except MemoryError:
            raise
        except Exception as error:  # h5py raises errors of many kinds for damaged files
            raise self._error(f"is damaged ({error})") from error
        total = len(labels)
        if not total or total % COPIES:
            raise self._error(f"has {total:,} labels, not {COPIES} for each digit")
        self._examples = np.arange(total).reshape(-1, COPIES)[:, :copies].reshape(-1)
        self._images = self._by_example(images, "img_data", total, None)
        self._matrices = self._by_example(matrices, "hom_matrices", total, 3)
        by_digit = labels.reshape(-1, COPIES)
        if (by_digit != by_digit[:, :1]).any() or not np.isin(labels, range(10)).all():
            raise self._error(f"has labels that are not digits in runs of {COPIES}")
        self._labels = torch.from_numpy(labels.astype(np.int64))

    def __len__(self) -> int:
        return len(self._examples)

    def batches(self, size: int, device: torch.device | str = "cpu") -> Iterator[PerturbedBatch]:
        """See PerturbedDigits. Raises InputError: the images cannot be read, or do not lie in [0, 1]."""
        if size < 1:
            raise ValueError(f"a batch holds at least 1 example, got size {size}")
        for start in range(0, len(self), size):
            index = self._examples[start : start + size]
            window = slice(int(index[0]), int(index[-1]) + 1)
            try:
                pixels, matrices = self._images(window), self._matrices(window)
            except MemoryError:
                raise
            except Exception as error:
                raise self._error(f"is damaged ({error})") from error
            kept = index - window.start
            images = torch.from_numpy(pixels[kept]).to(device)
            images = images.float() / 255 if images.dtype == torch.uint8 else images.float()
            low, high = (float(x) for x in images.aminmax())
            if not (-1e-3 <= low and high <= 1.001):
                raise self._error(f"has img_data between {low:g} and {high:g}, neither uint8 nor in [0, 1]")
            yield PerturbedBatch(
                2 * images[:, None] - 1,
                self._labels[index].to(device),
                torch.from_numpy(matrices[kept]).float().to(device),
            )

    def _by_example(self, array: Any, key: str, total: int, side: int | None) -> Callable[[slice], np.ndarray]:
        """A reader of consecutive (side × side) matrices from an array in either axis order."""
        if not array.shape:
            raise self._error(f"has {key} without a shape")
        reverse = not isinstance(array, np.ndarray) and array.shape[-1] == total  # HDF5 by MATLAB: axes reversed
        shape = array.shape[::-1] if reverse else array.shape
        inner = [length for length in shape[1:] if length > 1]
        square = inner if len(inner) == 2 else [round(length**0.5) for length in inner] * 2
        right = len(square) == 2 and square[0] == square[1] and np.prod(square) == np.prod(inner)
        if shape[0] != total or not right or side not in (None, square[0]):
            raise self._error(f"has {key} of shape {tuple(array.shape)}, which is not {total:,} square matrices")

        def read(window: slice) -> np.ndarray:
            part = array[..., window].transpose() if reverse else array[window]
            return np.ascontiguousarray(part).reshape(-1, *square)

        return read

    def _error(self, problem: str) -> InputError:
        return InputError(f"{self.path} {problem}: {_REMEDY}")


def _open(path: Path) -> list[Any]:
    """img_data, labels and hom_matrices: NumPy arrays, or HDF5 data sets that are read when they are indexed."""
    keys = ("img_data", "labels", "hom_matrices")
    if not path.is_file():
        raise InputError(f"there is no file {path}: {_REMEDY}")
    try:
        with path.open("rb") as start:
            head = start.read(520)
        if b"\x89HDF\r\n\x1a\n" in (head[:8], head[512:]):
            file = h5py_for(path).File(path, "r")  # stays open as long as its data sets do
            content = {key: file[key] for key in keys if key in file}
        elif head.startswith(b"MATLAB 5.0"):
            content = read_arrays(path, keys)
        else:
            raise InputError(f"{path} is not a MATLAB file of version 5 or 7.3: {_REMEDY}")
    except (InputError, MemoryError):
        raise
    except Exception as error:  # h5py raises errors of many kinds for damaged files
        raise InputError(f"{path} is damaged or cut off ({error}): {_REMEDY}") from error
    missing = [key for key in keys if key not in content or not hasattr(content[key], "shape")]
    if missing:
        raise InputError(f"{path} lacks {', '.join(missing)}: {_REMEDY}")
    return [content[key] for key in keys]
