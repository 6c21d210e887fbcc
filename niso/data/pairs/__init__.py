"""The user's own pairs: one reader a kind of DATA, what they read, and how pairs are drawn from it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from niso.registry import Registry

if TYPE_CHECKING:
    from niso.data.pairs.reader import Reader

READERS: Registry[type[Reader]] = Registry(
    "kind of data",
    {
        "arrays": "niso.data.pairs.arrays.ArrayReader",
        "paired": "niso.data.pairs.paired.PairedReader",
        "clips": "niso.data.pairs.clips.ClipReader",
        "pictures": "niso.data.pairs.pictures.PictureReader",
    },
    base="niso.data.pairs.reader.Reader",
    group=__name__,
)
"""In the order in which they are asked whether a path is theirs."""
