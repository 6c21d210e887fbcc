"""The largest centred square of images, and files that are none."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image
from PIL.ExifTags import Base

from niso.data.photographs import open_photograph
from niso.data.squares import read_square, square
from niso.errors import InputError


@pytest.mark.parametrize("size", [(40, 30), (30, 40), (30, 30), (41, 30)])
def test_the_square_is_centred(size):
    """Grey in the square, red in the margins."""
    pixels = np.zeros((size[1], size[0], 3), np.uint8)
    pixels[..., 0] = 255
    side = min(size)
    top, left = (size[1] - side) // 2, (size[0] - side) // 2
    pixels[top : top + side, left : left + side] = 100
    found = np.asarray(square(Image.fromarray(pixels), 10)).astype(int)
    assert found.shape == (10, 10, 3) and np.abs(found[1:-1, 1:-1] - 100).max() <= 5  # half a pixel


@pytest.mark.parametrize("mode", ["L", "P", "RGBA", "CMYK", "1"])
def test_all_modes_become_colours(tmp_path, mode):
    path = tmp_path / "image.tif"
    Image.new("RGB", (40, 30), (255, 255, 255)).convert(mode).save(path)
    image, size = read_square(path, 8)
    assert (image.mode, image.size, size) == ("RGB", (8, 8), (30, 40))
    assert np.asarray(image).min() >= 250


def test_images_that_cannot_be_used(tmp_path):
    Image.fromarray(np.full((30, 40), 40_000, np.uint16)).save(tmp_path / "deep.png")
    Image.new("RGB", (40, 30)).save(tmp_path / "cut.png")
    (tmp_path / "cut.png").write_bytes((tmp_path / "cut.png").read_bytes()[:60])
    (tmp_path / "text.png").write_text("no image")
    for name, words in (
        ("deep", "is not of 8 bits"),
        ("cut", "cannot be read"),
        ("text", "cannot be read"),
        ("gone", "is missing"),
    ):
        with pytest.raises(InputError, match=rf"{name}\.png {words}"):
            read_square(tmp_path / f"{name}.png", 8)


def test_pictures_are_turned_upright_but_not_where_cameras_are_known(tmp_path):
    image, exif = Image.new("RGB", (8, 4)), Image.Exif()
    image.paste((255, 255, 255), (0, 0, 8, 2))
    exif[Base.Orientation] = 8  # to be turned by a quarter, anticlockwise
    image.save(tmp_path / "turned.png", exif=exif)
    upright, size = read_square(tmp_path / "turned.png", 4)
    assert size == (8, 4) and upright.getpixel((0, 2))[0] > 200 > 50 > upright.getpixel((3, 2))[0]
    stored, size = read_square(tmp_path / "turned.png", 4, upright=False)
    assert size == (4, 8) and stored.getpixel((2, 0))[0] > 200 > 50 > stored.getpixel((2, 3))[0]
    assert open_photograph(tmp_path / "turned.png").size == (4, 8)
