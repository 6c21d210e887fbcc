"""Pieces of a self-contained web page: everything is escaped, styles are inline, pictures are data URIs."""

from __future__ import annotations

import base64
import html
import json
import math
import re
import struct
from collections.abc import Iterable, Sequence
from importlib.resources import files
from typing import Any, NamedTuple

from niso.report.pictures import DPI

MISSING = "—"


class Markup(str):
    """Text that is HTML already; all other text is escaped on its way into a page."""

    __slots__ = ()


def escape(value: object) -> Markup:
    """Any value as HTML text."""
    return value if isinstance(value, Markup) else Markup(html.escape(str(value)))


def element(tag: str, *content: object, **attributes: str | None) -> Markup:
    """`<tag attributes>content</tag>`; an attribute that is None is left out, `class_` stands for `class`."""
    given = {name.rstrip("_"): value for name, value in attributes.items() if value is not None}
    head = "".join(f' {name}="{html.escape(value)}"' for name, value in given.items())
    return Markup(f"<{tag}{head}>{join(content)}</{tag}>")


def join(parts: Iterable[object], separator: str = "") -> Markup:
    """Several pieces as one."""
    return Markup(separator.join(escape(part) for part in parts))


def document(title: str, *content: object) -> str:
    """A whole page that loads nothing from anywhere, and whose reader's browser is told so."""
    style = files("niso.report").joinpath("report.css").read_text(encoding="utf-8")
    policy = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"
    head = join(
        [
            Markup('<meta charset="utf-8">'),
            Markup(f'<meta http-equiv="Content-Security-Policy" content="{policy}">'),
            Markup('<meta name="viewport" content="width=device-width, initial-scale=1">'),
            Markup('<meta name="color-scheme" content="light dark">'),
            element("title", title),
            element("style", Markup(style)),
        ],
        "\n",
    )
    body = element("body", element("main", join(content, "\n")))
    return f'<!DOCTYPE html>\n<html lang="en">\n{element("head", head)}\n{body}\n</html>\n'


def table(
    heads: Sequence[object],
    rows: Iterable[Sequence[object]],
    numbers: Sequence[int] = (),
    class_: str | None = None,
) -> Markup:
    """A table that scrolls by itself where it is too wide.

    Args:
        numbers: columns that are aligned to the right.
        class_: style of the table.
    """

    def line(tag: str, cells: Sequence[object]) -> Markup:
        kinds = ("number" if column in numbers else None for column in range(len(cells)))
        return element("tr", *(element(tag, cell, class_=kind) for cell, kind in zip(cells, kinds, strict=True)))

    body = [line("td", row) for row in rows]
    content = [element("thead", line("th", heads)), element("tbody", *body)]
    return element("div", element("table", *content, class_=class_), class_="scroll")


def picture(png: bytes, caption: object, number: int, widest: int | None = None) -> Markup:
    """A numbered picture, as wide as it was drawn (or `widest` pixels) and never wider than the page."""
    width, height = (side * 100 // DPI for side in png_size(png))
    if widest is not None and width > widest:
        width, height = widest, height * widest // width
    source = f"data:image/png;base64,{base64.b64encode(png).decode()}"
    image = Markup(f'<img src="{source}" width="{width}" height="{height}" alt="Picture {number}">')
    text = element("figcaption", element("b", f"Picture {number}."), " ", caption)
    return element("figure", image, text, style=f"width:{width}px")


def png_size(png: bytes) -> tuple[int, int]:
    """Width and height in pixels, from a PNG's header.

    Raises:
        ValueError: it is not a PNG.
    """
    if len(png) < 24 or png[:8] != b"\x89PNG\r\n\x1a\n":
        raise ValueError("not a PNG image")
    width, height = struct.unpack(">II", png[16:24])
    return width, height


def number(value: object) -> str:
    """A figure as it is read best: whole numbers in full, others to four digits; other values as they are."""
    if not isinstance(value, int | float) or isinstance(value, bool):
        return MISSING if value is None else str(value)
    if math.isfinite(value) and value == int(value) and abs(value) < 1e15:
        return f"{int(value):,}" if value else "0"
    return f"{value:#.4g}".rstrip(".")


def with_error(mean: float, error: float) -> str:
    """A mean and its standard error, both to the error's second digit: "0.647 ± 0.016"."""
    if not (math.isfinite(mean) and math.isfinite(error)) or error == 0:
        return f"{number(mean)} ± {number(error)}"
    decimals = max(0, 1 - math.floor(math.log10(error)))
    return f"{mean:,.{decimals}f} ± {error:,.{decimals}f}"


class Bound(NamedTuple):
    """A target such as "≥ 0.95" (least) or "≤ 0.01"."""

    least: bool
    value: float

    def met(self, figure: float) -> bool:
        """Whether a figure keeps to it."""
        return figure >= self.value if self.least else figure <= self.value


def bound(target: object) -> Bound | None:
    """A target's text as a bound ("≥", ">=", "≤" or "<=", a number, perhaps "%"); None where it is none."""
    found = re.fullmatch(r"\s*(≥|>=|≤|<=)\s*(\d+(?:\.\d*)?(?:[eE][+-]?\d+)?)\s*(%?)\s*", str(target))
    if found is None:
        return None
    return Bound(found[1] in ("≥", ">="), float(found[2]) / (100 if found[3] else 1))


def duration(seconds: float) -> str:
    """Seconds in words: "45.2 s", "3 min 20 s", "6 h 12 min"."""
    if seconds < 60:
        return f"{seconds:.3g} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes < 60 else f"{minutes // 60:,} h {minutes % 60} min"


def fact(value: Any) -> str:
    """A fact of a run as one line."""
    return json.dumps(value, ensure_ascii=False) if isinstance(value, dict | list) else number(value)
