"""Files of pictures: which there are in a folder, what their headers tell, and how they are read."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from PIL import Image, ImageOps

from niso.data.evenly import evenly
from niso.data.squares import as_rgb, image_file, is_deep, opened
from niso.files.digests import digest
from niso.files.search import files_below, natural

EXTENSIONS = {".png", ".jpg", ".jpeg", ".jfif", ".bmp", ".gif", ".pgm", ".ppm", ".tif", ".tiff", ".webp"}

_NOT_READ = {".avif", ".cr2", ".dng", ".heic", ".heif", ".ico", ".jp2", ".nef", ".svg", ".tga"}
"""Of pictures that are passed over."""
_LOOKED_AT = 100
"""Pictures of a folder, at most, whose headers tell how many bits grey has."""


def pictures_in(folder: Path) -> list[Path]:
    """All pictures in a folder and below, but hidden ones, in the natural order of their names."""
    return sorted(files_below(folder, EXTENSIONS), key=lambda path: natural(path.relative_to(folder).as_posix()))


def own_pictures(folder: Path) -> list[Path]:
    """The pictures in a folder itself, but hidden ones, in the natural order of their names."""
    shown = (path for path in folder.iterdir() if path.suffix.lower() in EXTENSIONS and not path.name.startswith("."))
    return sorted(filter(Path.is_file, shown), key=lambda path: (natural(path.stem), path.name))


def size_of(path: Path) -> tuple[int, int]:
    """Width and height of a picture by its header; 0 where that cannot be read: reading names the file."""
    try:
        with image_file(path) as image:
            return image.size
    except Exception:  # Pillow raises errors of many kinds
        return 0, 0


def about_pictures(place: Path) -> str:
    """What a user should know of a picture, or of those in a folder and below: other formats are passed over, and of
    grey of 16 bits 8 are kept. Empty where there are none of either."""
    rounded = rounded_grey(place)
    arrays = f"{rounded}: where values count, as of depth, give arrays (n, 1, H, W)" if rounded else ""
    return "; ".join(filter(None, [other_formats(place), arrays]))


def other_formats(place: Path) -> str:
    """That pictures in a folder and below are passed over for their formats, in words; empty where none are."""
    found = Counter(path.suffix.lower() for path in files_below(place, _NOT_READ))
    counts = ", ".join(f"{count:,} {suffix}" for suffix, count in sorted(found.items()))
    return f"pictures of other formats are passed over ({counts}): save them as .png or .jpg" if found else ""


def rounded_grey(place: Path) -> str:
    """That of 16 bits, in a picture or in a folder and below, 8 are kept; empty where there are none."""
    files = pictures_in(place) if place.is_dir() else [place]
    some = (files[number] for number in evenly(_LOOKED_AT, len(files)).tolist())
    return next((f"{what} of 16 bits is read in steps of 256" for what in map(_of_16_bits, some) if what), "")


def _of_16_bits(path: Path) -> str:
    """What of a picture has 16 bits, by its header; empty where that cannot be read: reading names the file."""
    try:
        with image_file(path) as image:
            return "grey" if image.mode.startswith("I") else "colour" if is_deep(image) else ""
    except Exception:  # Pillow raises errors of many kinds
        return ""


def open_picture(path: Path) -> Image.Image:
    """An image file in RGB, see `as_rgb`; InputError where it cannot be read."""
    with opened(path, f"image {path}") as image:
        ImageOps.exif_transpose(image, in_place=True)  # upright, as viewers show it
        rgb = as_rgb(image).copy()  # the file's own image would be closed
    rgb.info["path"] = str(path)
    return rgb


def word_of(image: Image.Image) -> str:
    """A short word for what a picture shows: copies have the same, whatever their files are."""
    return digest(repr(image.size).encode(), image.tobytes())
