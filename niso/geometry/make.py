"""Actions by their names in the registry."""

from __future__ import annotations

import torch

from niso.errors import InputError, nearest
from niso.geometry import ACTIONS
from niso.geometry.action import Transformations, check_action


def make_action(flag: str, name: str, kind: str, shape: tuple[int, ...]) -> Transformations:
    """The registered transformations of this name, for observations of a kind and shape, see `Transformations`.

    Args:
        flag: that named it, for messages.

    Raises:
        InputError: there are none of this name; they are not for such observations, need more than their name, or fail
            a try, see `check_action`.
    """
    if name not in ACTIONS:
        raise InputError(f"unknown {flag.lstrip('-')} {name!r}{nearest(name, ACTIONS)}")
    registered = ACTIONS.find(name)
    try:
        action = registered.of(kind, shape) if hasattr(registered, "of") else registered()
    except (TypeError, ValueError) as error:
        remedy = "" if hasattr(registered, "of") else ": give its class a classmethod of(kind, shape)"
        raise InputError(f"{flag} {name} does not fit {kind} {shape}: {error}{remedy}") from error
    return check_action(name, action, torch.zeros(2, *shape))
