"""The largest centred square of an image, resized, as frames are stored."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from jaxtyping import UInt8
from PIL import Image, ImageOps
from PIL.ExifTags import Base
from torch import Tensor

from niso.errors import InputError


def square(image: Image.Image, size: int) -> Image.Image:
    """The largest centred square of an image in RGB, resized to `size` by `size` pixels."""
    side = min(image.size)
    left, top = (image.width - side) / 2, (image.height - side) / 2
    box = (left, top, left + side, top + side)
    colours = image if image.mode == "RGB" else image.convert("RGB")  # which would copy it
    return colours.resize((size, size), Image.Resampling.BICUBIC, box)


def resized(images: UInt8[Tensor, "images 3 side side"], size: int) -> UInt8[Tensor, "images 3 size size"]:
    """Square images as `square` resizes them."""
    if images.shape[-1] == size:
        return images
    return torch.stack([as_tensor(square(Image.fromarray(image.permute(1, 2, 0).numpy()), size)) for image in images])


def as_tensor(image: Image.Image) -> UInt8[Tensor, "3 height width"]:
    """An image in RGB, 0 … 255."""
    return torch.from_numpy(np.array(image)).permute(2, 0, 1).contiguous()


def read_square(path: Path, size: int, upright: bool = True) -> tuple[Image.Image, tuple[int, int]]:
    """The square of an image file, and the height and width that the image had.

    Args:
        upright: turned as viewers show it, not as its pixels are stored, which is what cameras are known for.

    Raises:
        InputError: it is missing, damaged, or not of 8 bits.
    """
    try:
        with Image.open(path) as image:
            width, height = image.size
            if image.mode[0] in "IF":
                raise InputError(f"{path.name} is not of 8 bits")
            image.draft(None, (3 * size // 2, 3 * size // 2))  # JPEG at ½, ¼ …: faster, and storing it loses far more
            if upright and (orientation := image.getexif().get(Base.Orientation, 1)) > 1:
                ImageOps.exif_transpose(image, in_place=True)
                width, height = (height, width) if orientation > 4 else (width, height)
            return square(image, size), (height, width)
    except FileNotFoundError as error:
        raise InputError(f"{path.name} is missing") from error
    except InputError:
        raise
    except Exception as error:  # Pillow raises errors of many kinds for damaged files
        raise InputError(f"{path.name} cannot be read ({' '.join(str(error).split())})") from error
