"""Group actions, the domains on which they act, and other geometry: exact, and tested without any data set."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from niso.errors import InputError, nearest

if TYPE_CHECKING:
    from niso.geometry.action import Action  # loads torch

ACTIONS = {
    "shift": "niso.geometry.shifts.Shifts",
    "rotation": "niso.geometry.rotations.Rotations",
    "homography": "niso.geometry.homographies.Homographies",
    "mobius": "niso.geometry.mobius.MobiusTransformations",
}
"""Name of each action and its class, which `find_action` imports."""


def find_action(name: str) -> type[Action]:
    """The class of an action, imported on demand.

    Raises:
        InputError: there is no such action; the message names the nearest.
    """
    if name not in ACTIONS:
        raise InputError(f"unknown action {name!r}{nearest(name, ACTIONS)}")
    module, _, attribute = ACTIONS[name].rpartition(".")
    action: type[Action] = getattr(import_module(module), attribute)
    return action
