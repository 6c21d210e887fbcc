"""Actions by their names in the registry."""

from __future__ import annotations

from collections.abc import Mapping
from inspect import getattr_static
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from niso.errors import InputError, foreign, nearest
from niso.geometry import ACTIONS
from niso.geometry.action import Transformations, check_action
from niso.named_values import changed

TRIED = 8
"""Observations that an action is tried on."""


def make_action(
    flag: str, name: str, kind: str, shape: tuple[int, ...], settings: Mapping[str, Any] | None = None
) -> Transformations:
    """The registered transformations of this name, for observations of a kind and shape, see `Transformations`.

    Args:
        flag: that named it, for messages.
        settings: values in place of the defaults of its fields, but for those that the data gives.

    Raises:
        InputError: there are none of this name; they are not for such observations, need more than their name, have no
            such settings, or fail a try, see `check_action`.
    """
    if name not in ACTIONS:
        raise InputError(f"unknown {flag.lstrip('-')} {name!r}{nearest(name, ACTIONS)}")
    registered = ACTIONS.find(name)
    if not isinstance(registered, type):
        raise InputError(f"action {name}: {ACTIONS[name]} is no class: register one")
    of = getattr(registered, "of", None)
    if of is not None and not isinstance(getattr_static(registered, "of"), classmethod | staticmethod):
        raise InputError(f"action {name}: {ACTIONS[name]}.of must be a classmethod of (kind, shape)")
    misfit = f"{flag} {name} does not fit {kind} {shape}"
    remedy = "give its class a classmethod of(kind, shape)" if of is None else ""
    with foreign(misfit, remedy):
        try:
            action = registered() if of is None else of(kind, shape)
        except ValueError as error:  # by which an action refuses observations, in its own words
            raise InputError(": ".join(filter(None, (misfit, str(error), remedy)))) from error
    action = changed(f"action {name}", action, settings or {})
    return check_action(name, action, _noise(kind, shape))


def _noise(kind: str, shape: tuple[int, ...]) -> Float[Tensor, "tried ..."]:
    """Observations in which whatever moves is seen, with values as scaling makes them: of images and volumes −1 … 1, of
    others of deviation 1."""
    generator = torch.Generator().manual_seed(0)
    if kind in ("images", "volumes"):
        return 2 * torch.rand(TRIED, *shape, generator=generator, device="cpu") - 1
    return torch.randn(TRIED, *shape, generator=generator, device="cpu")
