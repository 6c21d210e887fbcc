"""The dark theme of a figure: the same artists with light ink on a dark page."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
from matplotlib import colors
from matplotlib.cm import ScalarMappable
from matplotlib.collections import Collection
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.text import Text

from niso.figures.style import DIVERGING, SEQUENTIAL, WINE

PAPER, INK = "#16181b", "#e8eaed"
"""Background and text, as in the report's style sheet."""
CONTRAST = 4.5
"""Least contrast of what is drawn with the paper: that of text in WCAG 2."""
PARTNERS = {WINE: "#ff3366"}
"""Colours on a dark page of those that would, lightened, look like another."""
COLOUR_MAPS = {
    DIVERGING: colors.LinearSegmentedColormap.from_list(
        "niso-diverging-dark", ["#ffc4b8", "#f0654c", "#8f2b1b", "#22252a", "#155a8c", "#4aa3e0", "#b9e1ff"]
    ),
    SEQUENTIAL: colors.LinearSegmentedColormap.from_list(
        "niso-sequential-dark", ["#1c2026", "#13405f", "#1b74ad", "#58b0e8", "#c9e8ff"]
    ),
}
"""Zero is dark, as the paper; blue stays positive and red negative."""


def darken(figure: Figure) -> None:
    """Change a figure's colours, in place, for a dark page.

    Greys change places between ink and paper, colours become as light as they must to be seen, and colour maps from
    white become such from black. Photographs, and collections that are rasterized, such as shaded meshes, stay, and so
    do the colour maps of a figure that has such meshes, whose colours mean the same.
    """
    artists = dict.fromkeys(figure.findobj())  # each once: greys would change back
    meshes = any(  # the colours of colour bars, which are rasterized too, are an array
        isinstance(artist, Collection) and artist.get_rasterized() and artist.get_array() is None for artist in artists
    )
    for artist in artists:
        if isinstance(artist, ScalarMappable) and artist.get_array() is not None and not meshes:
            artist.set_cmap(COLOUR_MAPS.get(artist.get_cmap().name, artist.get_cmap()))
        if isinstance(artist, Text):
            artist.set_color(_on_dark(artist.get_color()))
        elif isinstance(artist, Line2D):
            edge, face = artist.get_markeredgecolor(), artist.get_markerfacecolor()
            artist.set(color=_on_dark(artist.get_color()), markeredgecolor=_on_dark(edge))
            artist.set_markerfacecolor(_on_dark(face))
        elif isinstance(artist, Patch):
            edge, face = artist.get_edgecolor(), artist.get_facecolor()
            artist.set(edgecolor=_on_dark(edge), facecolor=_on_dark(face))
        elif isinstance(artist, Collection) and not artist.get_rasterized():
            artist.set_edgecolor([_on_dark(colour) for colour in np.atleast_2d(artist.get_edgecolor())])
            if artist.get_array() is None:
                artist.set_facecolor([_on_dark(colour) for colour in np.atleast_2d(artist.get_facecolor())])
    figure.set_facecolor(PAPER)
    for axes in figure.axes:
        axes.patch.set_facecolor("none")
        for axis in (axes.xaxis, axes.yaxis):  # ticks are made anew whenever limits change
            axis.set_tick_params("both", color=INK, labelcolor=INK, grid_color=_on_dark("#dddddd"))


def _on_dark(colour: Any) -> Any:
    """The colour that plays the same part on dark paper; opacity stays."""
    if isinstance(colour, str) and colour in ("none", "auto"):
        return colour
    red, green, blue, alpha = colors.to_rgba(colour)
    if partner := PARTNERS.get(colors.to_hex(colour)):
        return colors.to_rgba(partner, alpha)
    return (*_lightened(red, green, blue), alpha)


@lru_cache(4096)  # a figure has thousands of artists, and few colours
def _lightened(*channels: float) -> tuple[float, float, float]:
    rgb = np.array(channels)
    paper, ink = (np.array(colors.to_rgb(name)) for name in (PAPER, INK))
    if np.ptp(rgb) < 0.12:
        return tuple(ink + rgb.mean() * (paper - ink))
    for share in np.linspace(0, 1, 41):
        lighter = rgb + share * (1 - rgb)
        if contrast(lighter, paper) >= CONTRAST:
            break
    return tuple(lighter)


def contrast(first: Any, second: Any) -> float:
    """Contrast of two colours, 1 … 21 (WCAG 2, relative luminance)."""
    dim, bright = sorted(map(_luminance, (first, second)))
    return (bright + 0.05) / (dim + 0.05)


def _luminance(colour: Any) -> float:
    rgb = np.array(colors.to_rgb(colour), dtype=float)
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    return float(linear @ [0.2126, 0.7152, 0.0722])
