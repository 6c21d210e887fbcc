"""Pictures with captions: how a folder keeps them (a PNG each, and `captions.json` in reading order) and a page."""

from __future__ import annotations

import base64
import io
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from matplotlib.figure import Figure
from PIL import Image

from niso.files import write_atomically, write_json

DPI = 200
"""Resolution of saved pictures: two pixels for each of the page's, whose inch has 100."""


@dataclass(frozen=True)
class Picture:
    """A figure of a report: the stem of its file, without folders, and what is to be seen, as plain text."""

    name: str
    caption: str
    figure: Figure

    def __post_init__(self) -> None:
        if not self.name or Path(self.name).name != self.name or self.name.startswith("."):
            raise ValueError(f"a picture's name must be a plain file stem, not {self.name!r}")


class Embedded(NamedTuple):
    """A picture in a page, with its size in pixels."""

    name: str
    caption: str
    source: str = ""
    """The PNG as a data URI; empty where it is missing or damaged."""
    width: int = 0
    height: int = 0
    origin: str = ""
    """What the picture is of; empty where the page says so."""


def save_pictures(pictures: Iterable[Picture], folder: Path) -> None:
    """Write each picture as `<name>.png` into `folder` (a run's `figures/`), and captions as `captions.json`.

    Each file is replaced in one step; the captions, which say what the report shows, come last.

    Raises:
        ValueError: two pictures have the same name.
        OSError: the folder cannot be written.
    """
    captions: dict[str, str] = {}
    for picture in pictures:
        if picture.name in captions:
            raise ValueError(f"two pictures are named {picture.name!r}")
        captions[picture.name] = picture.caption
        write_atomically(folder / f"{picture.name}.png", as_png(picture.figure))
    write_json(folder / "captions.json", captions)


def as_png(figure: Figure) -> bytes:
    """A figure as the content of a PNG file."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=DPI, facecolor="white")
    return buffer.getvalue()


def embed(content: bytes | Path, name: str, caption: str, widest: int | None = None, origin: str = "") -> Embedded:
    """A PNG for a page, as wide as it was drawn or `widest` pixels."""
    try:
        png = content.read_bytes() if isinstance(content, Path) else content
        with Image.open(io.BytesIO(png), formats=["PNG"]) as image:
            width, height = (side * 100 // DPI for side in image.size)
    except OSError:
        return Embedded(name, caption, origin=origin)
    if widest is not None and width > widest:
        width, height = widest, height * widest // width
    source = f"data:image/png;base64,{base64.b64encode(png).decode()}"
    return Embedded(name, caption, source, width, height, origin)


def embed_drawn(picture: Picture) -> Embedded:
    """A picture that no file keeps, for a page."""
    return embed(as_png(picture.figure), picture.name, picture.caption)
