"""Transformations that niso applies to single observations, by name: each an action on observations of one shape."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Float, Shaped
from torch import Tensor

from niso.data.pairs.table import Kind
from niso.errors import InputError, nearest
from niso.geometry import ACTIONS
from niso.geometry.action import Action, Transformations, check_action
from niso.geometry.shifts import Shifts

Make = Callable[[tuple[int, ...]], Transformations]
"""Observations' shape to an action on them."""

_INTERPOLATED = {"rotation", "affine", "homography", "mobius"}
"""Transforms that read images between their pixels, of which there must be two each way."""


@dataclass(frozen=True)
class OnGrid:
    """An action on functions on a grid (batch, points, channels), applied to images, volumes or signals.

    Attributes:
        action: on the points of the grid, row by row.
        channels_first: observations are images or volumes (batch, channels, …); otherwise they are signals.
    """

    action: Action
    channels_first: bool

    @property
    def unit(self) -> str:
        """Of the strength."""
        return self.action.unit

    def sample(self, count: int, generator: torch.Generator | None = None) -> Shaped[Tensor, "count ..."]:
        return self.action.sample(count, generator)

    def act(self, x: Float[Tensor, "batch ..."], t: Shaped[Tensor, "#batch ..."]) -> Float[Tensor, "batch ..."]:
        if not self.channels_first:
            return self.action.act(x, t)
        return self.action.act(x.flatten(2).mT, t).mT.unflatten(-1, x.shape[2:])

    def compose(
        self, second: Shaped[Tensor, "batch ..."], first: Shaped[Tensor, "batch ..."]
    ) -> Shaped[Tensor, "batch ..."]:
        return self.action.compose(second, first)

    def inverse(self, t: Shaped[Tensor, "batch ..."]) -> Shaped[Tensor, "batch ..."]:
        return self.action.inverse(t)

    def strength(self, t: Shaped[Tensor, "batch ..."]) -> Float[Tensor, " batch"]:
        return self.action.strength(t)


def make_transformations(name: str, kind: Kind, shape: tuple[int, ...]) -> Transformations:
    """The transformations of this name for observations of a kind and shape.

    Raises:
        InputError: there are none of this name, or they do not act on such observations.
    """
    makers: dict[str, dict[Kind, Make]] = {
        "shift": {
            "images": lambda s: OnGrid(Shifts(s[1], s[2]), True),
            "volumes": lambda s: OnGrid(Shifts(s[1], s[2], s[3]), True),
            "signals": lambda s: OnGrid(Shifts(1, s[0]), False),
        },
        "rotation": {
            "images": lambda s: _action("affine", scale=0.0, shear=0.0, shift=0.0, aspect=_aspect(s)),
            "volumes": lambda s: _action("turn"),
        },
        "affine": {"images": lambda s: _action("affine", aspect=_aspect(s))},
        "homography": {"images": lambda s: _action("homography")},
        "colour": {"images": lambda s: _action("colour", channels=s[0])},
        "elastic": {"images": lambda s: _action("elastic")},
        "mobius": {"images": lambda s: _action("mobius")},
        "warp": {"signals": lambda s: _action("warp")},
    }
    if name not in makers:
        if name not in ACTIONS:
            raise InputError(f"unknown transform {name!r}{nearest(name, makers)}")
        try:
            action = _action(name)  # one that the user has registered
        except TypeError as error:
            raise InputError(f"--transform {name} does not act on observations of any size: {error}") from error
        return check_action(name, action, torch.zeros(2, *shape))
    if kind not in makers[name]:
        raise InputError(f"--transform {name} acts on {' and '.join(makers[name])}, and these are {kind}")
    if kind == "images" and name in _INTERPOLATED and min(shape[1:]) < 2:
        sides = "×".join(map(str, shape[1:]))
        raise InputError(
            f"--transform {name} acts on images of 2×2 pixels or more, and these are {sides}: choose shift or colour, "
            "or give larger ones"
        )
    return makers[name][kind](shape)


def _aspect(shape: tuple[int, ...]) -> float:
    """See `AffineMaps`: homographies count from the centres of the outermost pixels."""
    return (shape[2] - 1) / (shape[1] - 1)


def composable(name: str | None) -> bool:
    """Whether T² of these transformations can be computed; none, and unknown ones, are refused by their maker."""
    return name is None or name not in ACTIONS or hasattr(ACTIONS.find(name), "compose")


def _action(name: str, **settings: float | int) -> Transformations:
    return ACTIONS.find(name)(**settings)
