"""Pictures with captions: how a folder keeps them (a PNG each, and `captions.json` in reading order) and a page."""

from __future__ import annotations

import base64
import io
import json
import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure, FigureBase
from PIL import Image
from PIL.PngImagePlugin import PngInfo

from niso.figures.themes import darken
from niso.files.json import parse_json, write_json
from niso.files.writing import write_atomically
from niso.training.run import CAPTIONS

PANELS = "niso-panels"
"""Key of what a PNG file says of its panels: [[share of the width where it begins, what it shows], …]."""
DPI = 200
"""Resolution of saved pictures: two pixels for each of the page's, whose inch has 100."""
WEBP = 16_383
"""Pixels of a side of a WebP image, at most."""


@dataclass(frozen=True)
class Picture:
    """A figure of a report: the stem of its file, without folders, and what is to be seen, as plain text."""

    name: str
    caption: str
    figure: Figure

    def __post_init__(self) -> None:
        if not self.name or Path(self.name).name != self.name or self.name.startswith("."):
            raise ValueError(f"a picture's name must be a plain file stem, not {self.name!r}")


class Panel(NamedTuple):
    """A part of a picture in a page, which a narrow screen shows below the part to its left."""

    light: str
    """The image as a data URI."""
    dark: str
    """The same for a dark page; empty where there is none."""
    width: int
    """In pixels of the page."""
    height: int
    alt: str
    """What is to be seen, for those who do not see it."""


class Embedded(NamedTuple):
    """A picture in a page."""

    name: str
    caption: str
    panels: Sequence[Panel]
    """From left to right; none where the file is missing or damaged."""
    origin: str = ""
    """What the picture is of; empty where the page says so."""

    @property
    def width(self) -> int:
        """Of all panels beside each other."""
        return sum(panel.width for panel in self.panels)


def save_pictures(pictures: Iterable[Picture], folder: Path) -> None:
    """Write each picture as `<name>.png` into `folder` (a run's `figures/`), and captions as `captions.json`.

    The same for dark pages is `dark/<name>.png`; the figures are left in these colours. Each file is replaced in one
    step; the captions, which say what the report shows, come last. Pictures that only the old ones name are removed.

    Raises:
        ValueError: two pictures have the same name.
        OSError: the folder cannot be written.
    """
    captions, before = dict[str, str](), _captioned(folder)
    for picture in pictures:
        if picture.name in captions:
            raise ValueError(f"two pictures are named {picture.name!r}")
        captions[picture.name] = picture.caption
        light, dark = as_pngs(picture.figure)
        write_atomically(folder / f"{picture.name}.png", light)
        write_atomically(dark_file(folder / f"{picture.name}.png"), dark)
    write_json(folder / CAPTIONS, captions)
    for name in before - captions.keys():
        (folder / f"{name}.png").unlink(missing_ok=True)
        dark_file(folder / f"{name}.png").unlink(missing_ok=True)


def _captioned(folder: Path) -> set[str]:
    """Names of the pictures that a folder has captions of."""
    try:
        names = parse_json((folder / CAPTIONS).read_bytes())
    except (OSError, ValueError):
        return set()
    return {name for name in names if isinstance(name, str) and Path(name).name == name}


def dark_file(file: Path) -> Path:
    """Where the picture of this file is kept for dark pages."""
    return file.parent / "dark" / file.name


def as_png(figure: Figure) -> bytes:
    """A figure as the content of a PNG file, which keeps as text where panels begin and what they show."""
    about, buffer = PngInfo(), io.BytesIO()
    about.add_text(PANELS, json.dumps(_panels(figure), ensure_ascii=False))
    # `Figure.savefig` would draw twice, the first time for sizes that are of no use here
    canvas, dpi = FigureCanvasAgg(figure), figure.dpi
    figure.dpi = DPI
    try:
        canvas.draw()
    finally:
        figure.dpi = dpi
    Image.fromarray(np.asarray(canvas.buffer_rgba())).save(buffer, format="png", pnginfo=about, dpi=(DPI, DPI))
    return buffer.getvalue()


def _panels(figure: Figure) -> list[tuple[float, str]]:
    """Of each panel, where it begins, as a share of the width, and what its axes are; of one that has none, all."""
    whole = figure.bbox
    beside = [part for part in figure.subfigs if part.bbox.height > 0.95 * whole.height]
    if len(beside) < len(figure.subfigs) or not beside:
        return [(0.0, _about(figure))]
    return [(max(0.0, part.bbox.x0) / whole.width if n else 0.0, _about(part)) for n, part in enumerate(beside)]


def _about(part: FigureBase) -> str:
    """Titles of its axes; of those that have none, their labels."""
    every = [axes for axes in _axes(part) if axes.get_label() != "<colorbar>" and axes.axison]
    names = []
    for axes in every:
        title, across, up = (" ".join(text().split()) for text in (axes.get_title, axes.get_xlabel, axes.get_ylabel))
        if title or (across and up):
            names.append(title or f"{up} against {across}")
    return "; ".join(dict.fromkeys(names))


def _axes(part: FigureBase) -> list[Any]:
    """Its axes, those in them and in its subfigures, each once."""
    outer = cast(list[Any], part.axes)
    inner = [child for axes in outer for child in axes.child_axes]
    return list(dict.fromkeys([*outer, *inner, *(axes for nested in part.subfigs for axes in _axes(nested))]))


def as_pngs(figure: Figure) -> tuple[bytes, bytes]:
    """A figure as PNG files for light and dark pages, the second in the layout of the first."""
    light = as_png(figure)
    darken(figure)
    layout = figure.get_layout_engine()
    figure.set_layout_engine("none")
    dark = as_png(figure)
    figure.set_layout_engine(layout)
    return light, dark


def embed(
    file: Path, name: str, caption: str, widest: int | None = None, origin: str = "", repeated: bool = False
) -> Embedded:
    """A picture of a run folder for a page.

    Args:
        widest: pixels of a panel, at most; by default it is as wide as it was drawn.
        repeated: whether the page has this caption already.
    """
    try:
        light, dark = file.read_bytes(), dark_file(file)
        panels = _cut(light, dark.read_bytes() if dark.is_file() else b"", name, caption, widest)
    except (OSError, ValueError, TypeError):  # of Pillow, too
        panels = []
    return Embedded(name, "" if repeated else caption, panels, origin)


def embed_drawn(picture: Picture) -> Embedded:
    """A picture that no file keeps, for a page."""
    return Embedded(picture.name, picture.caption, _cut(*as_pngs(picture.figure), picture.name, picture.caption, None))


def _cut(light: bytes, dark: bytes, name: str, caption: str, widest: int | None) -> list[Panel]:
    """The panels of a picture. OSError where it is no PNG."""
    with Image.open(io.BytesIO(light), formats=["PNG"]) as first:
        shown = [first.convert("RGB")]
        told = first.info.get(PANELS) or '[[0, ""]]'
    if dark:
        with Image.open(io.BytesIO(dark), formats=["PNG"]) as second:
            shown += [second.convert("RGB")] * (second.size == shown[0].size)  # else it is of an earlier evaluation
    begins, words = zip(*json.loads(told), strict=True)
    width, height = shown[0].size
    edges = [*(round(share * width) for share in begins), width]
    sentence = re.split(r"(?<=[.;])\s", caption or Path(name).stem.replace("_", " "), maxsplit=1)[0].rstrip(".;")
    panels = []
    # one factor, so that what stands at one height still does
    broadest = max(right - left for left, right in pairwise(edges))
    factor = min(1.0, (widest or math.inf) * DPI / 100 / broadest, WEBP / broadest, WEBP / height)
    for number, (left, right) in enumerate(pairwise(edges), 1):
        size = max(1, round((right - left) * factor)), max(1, round(height * factor))
        sources = [_source(image.crop((left, 0, right, height)).resize(size)) for image in shown]
        place = f"panel {number} of {len(words)}" if len(words) > 1 else ""
        about = words[number - 1] if words[number - 1].casefold() != sentence.casefold() else ""
        alt = ": ".join(filter(None, [sentence, place, about]))
        panels.append(
            Panel(
                sources[0],
                sources[1] if len(sources) > 1 else "",
                size[0] * 100 // DPI,
                size[1] * 100 // DPI,
                f"{alt}.",
            )
        )
    return panels


def _source(image: Image.Image) -> str:
    """An image as a data URI, without loss; half as long as a PNG."""
    buffer = io.BytesIO()
    image.save(buffer, format="webp", lossless=True, method=1, quality=20)
    return f"data:image/webp;base64,{base64.b64encode(buffer.getvalue()).decode()}"
