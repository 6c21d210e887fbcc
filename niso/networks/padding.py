"""What convolutions see beyond the edges of images, volumes and signals."""

from __future__ import annotations

from typing import Literal

Padding = Literal["zeros", "circular", "longitude"]
"""Zeros; the other side, so that shifts which go round shift the latents, too; or the other side left and right alone,
as on a longitude-latitude grid, and zeros above and below. On a grid that has its first meridian twice, as
shapes' layout `poles`, the two are neighbours of each other, and convolutions commute with rotations but for them."""
