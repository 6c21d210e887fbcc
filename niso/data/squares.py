"""The largest centred square of an image, resized, as frames are stored, and pixels as networks take them."""

from __future__ import annotations

import math
import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float, UInt8
from PIL import Image, ImageFile, ImageOps, UnidentifiedImageError
from PIL.ExifTags import Base
from torch import Tensor

from niso.errors import InputError, unreadable

_SIDES = (Base.ImageWidth, Base.ImageLength)
_NUMBERS = "save it in 8 bits, or, where values count, as of depth, all files as arrays (n, C, H, W)"


def square(image: Image.Image, size: int) -> Image.Image:
    """The largest centred square of an image in RGB, resized to `size` by `size` pixels."""
    side = min(image.size)
    left, top = (image.width - side) / 2, (image.height - side) / 2
    box = (left, top, left + side, top + side)
    return as_rgb(image).resize((size, size), Image.Resampling.BICUBIC, box)


@contextmanager
def image_file(path: Path) -> Iterator[ImageFile.ImageFile]:
    """An image file, without Pillow's warning of large ones, which comes with some formats when pixels are read.

    Raises:
        Exception: of many kinds, as Pillow does.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", Image.DecompressionBombWarning)
        with Image.open(path) as image:
            yield image


@contextmanager
def opened(path: Path, called: str) -> Iterator[Image.Image]:
    """An image file for `as_rgb`; `info` says whether colours have 16 bits, of which Pillow keeps the upper 8, and
    whether grey of 16 bits is 0 where it is white, which Pillow inverts in other images.

    Args:
        called: what messages call the file.

    Raises:
        InputError: it is missing, damaged or too large, or what is done with it raises one.
    """
    try:
        with image_file(path) as image:
            image.info["deep"] = is_deep(image)
            tags = getattr(image, "tag_v2", {})  # of a TIFF
            image.info["negative"] = image.mode.startswith("I;16") and tags.get(Base.PhotometricInterpretation) == 0
            yield image
    except FileNotFoundError as error:
        raise InputError(f"{called} is missing") from error
    except Image.DecompressionBombError as error:
        raise InputError(f"{called} {_too_large(error)}: shrink it") from error
    except InputError as error:
        raise InputError(f"{called} cannot be used: {error}") from error
    except MemoryError:
        raise
    except Exception as error:  # Pillow raises errors of many kinds for damaged files
        reason = "it is not an image" if isinstance(error, UnidentifiedImageError) else ""
        raise InputError(f"{called} cannot be read {unreadable(error, 'repair or remove it', reason)}") from error


def is_deep(image: ImageFile.ImageFile) -> bool:
    """Whether the colours of an image file, whose pixels are not read yet, have 16 bits."""
    return any(";16" in str(tile[3]) for tile in image.tile)


def _too_large(error: Image.DecompressionBombError) -> str:
    """What Pillow refused: of the numbers of pixels, the picture's and the most that it reads."""
    pixels, most = (int(number) / 1e6 for number in re.findall(r"\d+", str(error))[:2])
    return f"has {math.ceil(pixels)} megapixels, of which at most {math.floor(most)} are read"


def as_rgb(image: Image.Image) -> Image.Image:
    """An image in RGB, over white where it is transparent; values of 16 bits are scaled to 8.

    Raises:
        InputError: it has values that are not of 8 or 16 bits, or several frames, as GIF, WebP, PNG and TIFF may have.
    """
    if image.format != "MPO" and getattr(image, "is_animated", False):  # which is a photograph and its preview
        raise InputError(
            "it has several frames: save it as a video (.mp4), or its frames as pictures, or where they are channels "
            "all files as arrays (n, C, H, W); or remove it"
        )
    if image.mode == "F":
        raise InputError(f"its values are floating-point numbers: {_NUMBERS}")
    if image.mode.startswith("I"):  # of which Pillow would clip values above 255
        grey = np.asarray(image)
        values = 255 - _in_8_bits(grey) if image.info.get("negative") else _in_8_bits(grey)
        unseen = grey == image.info.get("transparency", -1)
        return Image.fromarray(np.where(unseen, np.uint8(255), values)).convert("RGB")
    if image.info.get("deep"):
        _check_8_bits(image)
    if image.has_transparency_data:  # colours that nobody sees lie under it
        image = image.convert("RGBA")
        image = Image.alpha_composite(Image.new("RGBA", image.size, "white"), image)
    return image if image.mode == "RGB" else image.convert("RGB")  # which would copy it


def _in_8_bits(grey: np.ndarray) -> np.ndarray:
    """Grey values of 16 bits; InputError where they are of another range, e.g. of 12 bits, and would be black."""
    low, high = int(grey.min()), int(grey.max())
    if low < 0 or not (1 << 12 <= high < 1 << 16 or high == 0):  # black is black in any range
        raise InputError(f"its grey values are {low} … {high}, not of full 16 bits: {_NUMBERS}")
    return (grey >> 8).astype(np.uint8)


def _check_8_bits(colours: Image.Image) -> None:
    """InputError where the upper 8 of 16 bits are those of values of another range, e.g. of 12 bits, nearly black."""
    most = max(int(np.asarray(band).max()) for band in colours.convert("RGB").split())
    if 0 < most < 1 << 4:  # black is black in any range
        raise InputError(f"its colours are at most {most * 256 + 255}, not of full 16 bits: save it in 8 bits")


def resized(images: UInt8[Tensor, "images 3 side side"], size: int) -> UInt8[Tensor, "images 3 size size"]:
    """Square images as `square` resizes them."""
    if images.shape[-1] == size:
        return images
    return torch.stack([as_tensor(square(Image.fromarray(image.permute(1, 2, 0).numpy()), size)) for image in images])


def as_tensor(image: Image.Image) -> UInt8[Tensor, "3 height width"]:
    """An image in RGB, 0 … 255."""
    return torch.from_numpy(np.array(image)).permute(2, 0, 1).contiguous()


def signed(images: UInt8[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    """Pixels 0 … 255 as float32 in [−1, 1], the range of every network here; black is exactly −1, white exactly 1."""
    return images.float() / 127.5 - 1


def read_square(path: Path, size: int) -> tuple[Image.Image, tuple[int, int]]:
    """The square of an image file, and the height and width that the image has, turned as viewers show it.

    Raises:
        InputError: it is missing or damaged, or see `as_rgb`.
    """
    image, (height, width), orientation = read_turned(path, size)
    return image, (width, height) if orientation > 4 else (height, width)


def read_turned(path: Path, size: int) -> tuple[Image.Image, tuple[int, int], int]:
    """The square of an image file, turned as viewers show it, and how its pixels are stored, which is what cameras are
    known for: the height and width, and the orientation by EXIF (1 for upright). Errors as of `read_square`."""
    with opened(path, path.name) as image:
        width, height = image.size
        if image.format == "TIFF":  # whose size Pillow turns already
            tags = getattr(image, "tag_v2", {})
            width, height = (int(tags.get(tag, size)) for tag, size in zip(_SIDES, image.size, strict=True))
        image.draft(None, (3 * size // 2, 3 * size // 2))  # JPEG at ½, ¼ …: faster, and storing it loses far more
        orientation = image.getexif().get(Base.Orientation, 1)
        if not 1 < orientation <= 8:
            return square(image, size), (height, width), 1
        ImageOps.exif_transpose(image, in_place=True)
        return square(image, size), (height, width), orientation
