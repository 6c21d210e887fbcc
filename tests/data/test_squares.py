"""The largest centred square of images, and files that are none."""

from __future__ import annotations

import struct
import warnings
import zlib

import numpy as np
import pytest
from PIL import Image
from PIL.ExifTags import Base

from niso.data.pictures import open_picture, pictures_in, rounded_grey, size_of
from niso.data.squares import read_square, read_turned, square
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
    Image.fromarray(np.full((30, 40), 4_000, np.uint16)).save(tmp_path / "deep.png")
    Image.fromarray(np.zeros((30, 40), np.float32)).save(tmp_path / "float.tif")
    black, white = Image.new("RGB", (40, 30)), Image.new("RGB", (40, 30), "white")
    films = ("film.gif", "film.webp", "film.png", "stack.tif")
    for name in films:
        black.save(tmp_path / name, save_all=True, append_images=[white])
    Image.new("RGB", (40, 30)).save(tmp_path / "cut.png")
    (tmp_path / "cut.png").write_bytes((tmp_path / "cut.png").read_bytes()[:60])
    (tmp_path / "text.png").write_text("no image")
    for name, words in (
        ("deep.png", "cannot be used: its grey values .*: save it in 8 bits, or, .* as arrays"),
        ("float.tif", "cannot be used: its values are floating-point numbers: save it in 8 bits, or, .* as arrays"),
        *((name, "cannot be used: it has several frames: save it as a video .* as arrays") for name in films),
        ("cut.png", "cannot be read .*: repair or remove it"),
        ("text.png", r"cannot be read \(it is not an image\): repair or remove it$"),
        ("gone.png", "is missing"),
    ):
        with pytest.raises(InputError, match=f"{name} {words}"):
            read_square(tmp_path / name, 8)


def test_a_photograph_with_a_preview_is_read(tmp_path):
    white, preview = Image.new("RGB", (40, 30), "white"), Image.new("RGB", (8, 6))
    white.save(tmp_path / "phone.jpg", "MPO", save_all=True, append_images=[preview])
    assert np.asarray(read_square(tmp_path / "phone.jpg", 8)[0]).min() >= 250


def test_grey_of_16_bits_is_scaled(tmp_path):
    Image.fromarray(np.full((30, 40), 200 << 8, np.uint16)).save(tmp_path / "deep.png")
    assert (np.asarray(read_square(tmp_path / "deep.png", 8)[0]) == 200).all()
    Image.fromarray(np.zeros((30, 40), np.uint16)).save(tmp_path / "black.png")
    assert not np.asarray(read_square(tmp_path / "black.png", 8)[0]).any()


def test_grey_of_16_bits_that_is_transparent_is_white(tmp_path):
    grey = np.full((8, 8), 200 << 8, np.uint16)
    grey[:, :4] = 30_000
    Image.fromarray(grey).save(tmp_path / "deep.png", transparency=30_000)
    pixels = np.asarray(read_square(tmp_path / "deep.png", 8)[0])
    assert (pixels[:, :4] == 255).all() and (pixels[:, 4:] == 200).all()


def test_grey_of_16_bits_that_is_0_where_it_is_white_is_inverted(tmp_path):
    """In TIFF files that say so; values of 12 bits are refused there, too."""
    path, grey = tmp_path / "negative.tif", np.full((8, 8), 55, np.uint16)
    grey[:4] = 255

    def save(values):
        Image.fromarray(values).save(path, tiffinfo={Base.PhotometricInterpretation: 0})
        with Image.open(path) as image:
            assert image.tag_v2[Base.PhotometricInterpretation] == 0

    save(grey << 8)
    for read in (read_square(path, 8)[0], open_picture(path)):
        pixels = np.asarray(read)
        assert (pixels[:4] == 0).all() and (pixels[4:] == 200).all()
    save(grey << 4)
    with pytest.raises(InputError, match="not of full 16 bits"):
        read_square(path, 8)


@pytest.mark.parametrize("suffix", [".png", ".tif"])
def test_large_pictures_are_read_in_silence_and_larger_ones_refused(tmp_path, monkeypatch, suffix):
    large, larger = tmp_path / f"large{suffix}", tmp_path / f"larger{suffix}"
    Image.new("RGB", (1500, 1100), "white").save(large)
    Image.new("RGB", (1500, 1400), "white").save(larger)
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 1_000_000)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert read_square(large, 8)[1] == (1100, 1500)
        assert open_picture(large).size == size_of(large) == (1500, 1100)
    with pytest.raises(InputError, match=r"larger\.(png|tif) has 3 megapixels, of which at most 2 are read: shrink"):
        read_square(larger, 8)


@pytest.mark.parametrize("suffix", [".gif", ".jfif", ".pgm", ".ppm"])
def test_less_common_formats_are_read(tmp_path, suffix):
    path = tmp_path / f"grey{suffix}"
    Image.new("L" if suffix == ".pgm" else "RGB", (40, 30), 0).save(path)
    assert pictures_in(tmp_path) == [path] and read_square(path, 8)[1] == (30, 40)


def transparent(mode):
    """Hidden colours in the left half, black in the right one."""
    pixels = np.zeros((8, 8, 4), np.uint8)
    pixels[:, :4] = (255, 0, 0, 0)
    pixels[:, 4:, 3] = 255
    if mode != "RGB":  # of which one colour is transparent
        return Image.fromarray(pixels).convert(mode)
    image = Image.fromarray(pixels[..., :3])
    image.info["transparency"] = (255, 0, 0)
    return image


@pytest.mark.parametrize("mode", ["RGBA", "LA", "P", "RGB"])
def test_what_is_transparent_is_white(tmp_path, mode):
    path, image = tmp_path / "icon.png", transparent(mode)
    image.save(path, transparency=image.info["transparency"]) if mode == "RGB" else image.save(path)
    for read in (read_square(path, 8)[0], open_picture(path)):
        assert read.mode == "RGB"
        assert read.getpixel((0, 0)) == (255, 255, 255) and read.getpixel((7, 0)) == (0, 0, 0)


def test_pictures_are_turned_upright_and_their_cameras_with_them(tmp_path):
    image, exif = Image.new("RGB", (8, 4)), Image.Exif()
    image.paste((255, 255, 255), (0, 0, 8, 2))
    exif[Base.Orientation] = 8  # to be turned by a quarter, anticlockwise
    image.save(tmp_path / "turned.png", exif=exif)
    upright, size = read_square(tmp_path / "turned.png", 4)
    assert size == (8, 4) and upright.getpixel((0, 2))[0] > 200 > 50 > upright.getpixel((3, 2))[0]
    also, size, orientation = read_turned(tmp_path / "turned.png", 4)
    assert also == upright and size == (4, 8) and orientation == 8
    assert open_picture(tmp_path / "turned.png").size == (4, 8)
    image.save(tmp_path / "turned.tif", exif=exif)  # whose size Pillow turns itself
    assert read_square(tmp_path / "turned.tif", 4)[1] == (8, 4)
    assert read_turned(tmp_path / "turned.tif", 4)[1:] == ((4, 8), 8)


@pytest.mark.parametrize(("colour", "channels"), [(2, 3), (6, 4), (4, 2)])
def test_colours_of_16_bits_are_scaled_and_those_of_12_refused(tmp_path, colour, channels):
    """PNG files of RGB, RGBA, and grey with alpha, which Pillow reads but cannot write."""
    values = np.linspace(0, 65535, 8 * 8 * channels).reshape(8, 8, channels).astype(">u2")
    values[..., channels - 1 :] |= 0xFFFF if channels % 2 == 0 else 0
    (tmp_path / "full.png").write_bytes(png_of_16_bits(values, colour))
    values[..., : channels - (channels % 2 == 0)] >>= 4
    (tmp_path / "dark.png").write_bytes(png_of_16_bits(values, colour))
    image, _ = read_square(tmp_path / "full.png", 8)
    assert np.asarray(image).max() > 240
    assert np.asarray(open_picture(tmp_path / "full.png")).max() > 240
    for read in (lambda path: read_square(path, 8), open_picture):
        with pytest.raises(InputError, match="its colours are at most 4095, not of full 16 bits: save it in 8 bits"):
            read(tmp_path / "dark.png")
    (tmp_path / "full.png").write_bytes(png_of_16_bits(0 * values, colour))
    assert rounded_grey(tmp_path / "full.png") == "colour of 16 bits is read in steps of 256"
    read_square(tmp_path / "full.png", 8)  # black is no darkness


def png_of_16_bits(values, colour):
    def chunk(kind, content):
        body = kind + content
        return struct.pack(">I", len(content)) + body + struct.pack(">I", zlib.crc32(body))

    height, width, _ = values.shape
    header = struct.pack(">IIBBBBB", width, height, 16, colour, 0, 0, 0)
    rows = b"".join(b"\0" + row.tobytes() for row in values)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


def test_a_picture_that_memory_does_not_hold_is_not_called_damaged(tmp_path, monkeypatch):
    Image.new("RGB", (8, 8)).save(tmp_path / "a.png")

    def full(*_):
        raise MemoryError

    monkeypatch.setattr(Image, "open", full)
    with pytest.raises(MemoryError):
        read_square(tmp_path / "a.png", 8)
