"""Group actions, the domains on which they act, and other geometry: exact, and tested without any data set."""

from __future__ import annotations

from typing import TYPE_CHECKING

from niso.registry import Registry

if TYPE_CHECKING:
    from niso.geometry.action import Transformations  # loads torch

ACTIONS: Registry[type[Transformations]] = Registry(
    "action",
    {
        "shift": "niso.geometry.shifts.Shifts",
        "rotation": "niso.geometry.rotations.Rotations",
        "homography": "niso.geometry.homographies.Homographies",
        "affine": "niso.geometry.affine.AffineMaps",
        "colour": "niso.geometry.colours.ColourMaps",
        "elastic": "niso.geometry.elastic.ElasticWarps",
        "warp": "niso.geometry.warps.TimeWarps",
        "turn": "niso.geometry.turns.Turns",
        "mobius": "niso.geometry.mobius.MobiusTransformations",
    },
    group=__name__,
)
