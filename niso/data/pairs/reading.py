"""How DATA is read."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Literal

import tyro

from niso.config import Strict, require
from niso.named_values import NamedValues


@dataclass(frozen=True)
class Reading(Strict):
    """How DATA is read."""

    kind: Literal["auto", "images", "volumes", "signals", "points"] = "auto"
    """What arrays hold, where their shape does not tell it."""
    size: int | None = None
    """Height and width that pictures and frames are resized to, in pixels; by default that of the preset."""
    skip: int = 5
    """Frames of a clip that are paired are at most so many apart: 1 pairs neighbours. (`niso run pose` counts the
    frames left out between the two instead.)"""
    crops: int | None = None
    """Random square crops that single pictures are cut into, in all; 0 takes each picture whole. By default 10,000
    where there are fewer than 1,000 pictures without labels."""
    transform: str | None = None
    """What niso applies to single observations: shift, rotation, affine, homography, colour, elastic or (on
    longitude-latitude grids) mobius to images, shift or rotation to volumes, shift or warp (in time) to signals. Shifts
    and warps go round: what leaves at one end enters at the other."""
    transform_settings: NamedValues = field(default_factory=dict)
    """Settings of --transform, e.g. angle=30 of rotations by at most 30 degrees."""
    first_view: Literal["given", "transformed"] = "given"
    """With --transform, what ψ of a pair (ψ, Tψ) to train on is: an observation as it is given, or under a random
    transformation of its own, so that Tψ is under two."""
    in_memory: Annotated[bool, tyro.conf.Suppress] = False
    """Whether a program gave the observations, see `niso.fit`: a run folder does not have them."""
    memory: float = 4.0
    """Gigabytes up to which pictures are kept in memory, and arrays on the device."""

    def __post_init__(self) -> None:
        require(self, "skip", "memory", positive=True)
        require(self, "size", least=2)
        require(self, "crops")
