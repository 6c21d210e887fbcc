"""Group actions, the domains on which they act, and other geometry: exact, and tested without any data set."""

from __future__ import annotations

from typing import TYPE_CHECKING

from niso.registry import Registry

if TYPE_CHECKING:
    from niso.geometry.action import Action  # loads torch

ACTIONS: Registry[type[Action]] = Registry(
    "action",
    {
        "shift": "niso.geometry.shifts.Shifts",
        "rotation": "niso.geometry.rotations.Rotations",
        "homography": "niso.geometry.homographies.Homographies",
        "mobius": "niso.geometry.mobius.MobiusTransformations",
    },
)
