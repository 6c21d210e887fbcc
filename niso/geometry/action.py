"""The protocol of group actions: what an experiment knows of the transformations T in its pairs (ψ, Tψ)."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Protocol, TypeGuard, TypeVar, runtime_checkable

import torch
from jaxtyping import Float, Shaped
from torch import Tensor

from niso.checks import described
from niso.errors import InputError, foreign
from niso.linalg import without_autocast
from niso.messages import say

A = TypeVar("A")
ALIKE = 1e-2
"""Share of how far observations are moved by which places that are computed in float32 may change them."""
TWICE = 0.7
"""Share of how far T moves observations up to which T twice is T²: what leaves the frame does not come back."""
STILL = 1e-3
"""Share of the largest value up to which what changes is rounding: the observation does not move."""
DRAWS = 64
"""How often transformations are drawn, one for each observation that is tried, until one moves its own."""
KEPT = 3
"""Frequencies along each axis of what `compose` is tried on, 0 among them."""


@runtime_checkable
class Transformations(Protocol):
    """Random transformations and how they act on observations: what pairs (ψ, Tψ) and groups of them need.

    It is all that there is where transformations do not form a group that can be computed with, e.g. elastic ones.
    Whatever needs T² or T⁻¹ needs an `Action`, whose docstring has the conventions.

    A registered class is called without arguments, unless it has a classmethod `of(kind, shape)`. That gives the
    transformations of observations of a kind ("images", "volumes", "signals" or "points") and a shape without the
    batch, and raises a ValueError where it has none, see `check_kind`. homNIST asks for two more methods, where they
    are there: `test_distribution()`, other transformations to test under, and `corner_displacement(t, side)`, strengths
    in pixels of images (side, side).
    """

    @property
    def unit(self) -> str:
        """Of the strength, e.g. "degrees"."""
        ...

    def sample(self, count: int, generator: torch.Generator | None = None) -> Shaped[Tensor, "count ..."]:
        """`count` random transformations, always on the CPU: the same numbers whatever the device of training.

        Args:
            generator: a generator of the CPU; torch's global one by default.
        """
        ...

    def act(self, x: Float[Tensor, "batch ..."], t: Shaped[Tensor, "#batch ..."]) -> Float[Tensor, "batch ..."]:
        """T x, on the device and in the dtype of x; differentiable in x.

        Args:
            t: one transformation for each observation, or one for all, on any device.
        """
        ...

    def strength(self, t: Shaped[Tensor, "batch ..."]) -> Float[Tensor, " batch"]:
        """How far each transformation moves an observation, 0 for the identity."""
        ...


@runtime_checkable
class Action(Transformations, Protocol):
    """A group (or a local group) of transformations T and how they act on observations.

    A batch of transformations is one tensor, one transformation for each entry of its first axis. The action chooses
    the other axes and the dtype, for example (batch, 3, 3) in float64 for matrices. Observations are real tensors with
    the batch first; the action chooses their other axes, too.

    An implementation is a small frozen dataclass whose fields are the parameters of the action:

        @dataclass(frozen=True)
        class Reversals:
            '''Signals (batch, length, channels), reversed or not; t: (batch,) booleans; strength: 1 if reversed.'''

            unit = "reversals"

            def sample(self, count, generator=None):
                return torch.randint(2, (count,), generator=generator, device="cpu").bool()

            def act(self, x, t):
                return x.flip(1).where(on_device_of(x, t)[:, None, None], x)

            def compose(self, second, first):
                return second ^ first

            def inverse(self, t):
                return t

            def strength(self, t):
                return t.float()

    One line in `niso.geometry.ACTIONS` registers it, and one observation in tests/geometry/test_actions.py subjects it
    to the laws below. They hold up to rounding; where an action interpolates, up to the interpolation error of a smooth
    observation; and where a part of the observation leaves the frame, for the rest of it.

        act(act(x, first), second) = act(x, compose(second, first))
        act(act(x, t), inverse(t)) = x
        strength(compose(inverse(t), t)) = 0
    """

    def compose(
        self, second: Shaped[Tensor, "batch ..."], first: Shaped[Tensor, "batch ..."]
    ) -> Shaped[Tensor, "batch ..."]:
        """The transformations that act as `first` and then `second`."""
        ...

    def inverse(self, t: Shaped[Tensor, "batch ..."]) -> Shaped[Tensor, "batch ..."]:
        """The transformations that undo these."""
        ...


def check_kind(kind: str, *known: str) -> None:
    """ValueError unless observations are of one of these kinds."""
    if kind not in known:
        raise ValueError(f"it acts on {' and '.join(known)}; choose another")


def check_images(kind: str, shape: tuple[int, ...]) -> None:
    """ValueError unless observations are images that can be read between their pixels, two each way or more."""
    check_kind(kind, "images")
    if min(shape[1:]) < 2:
        raise ValueError("it needs 2×2 pixels or more; choose shift or colour, or give larger ones")


def check_action(name: str, action: object, x: Float[Tensor, "batch ..."]) -> Transformations:
    """An action, if it is as `Transformations` says, by a try on some observations.

    Raises:
        InputError: it lacks a part, or fails, or gives something of another form, what is not finite, or something else
            each time; or observations are not moved, however often it draws, or not each by its own transformation.

    A line says where T² by `compose` is not T twice.
    """
    if not isinstance(action, Transformations):
        lacking = [part for part in ("unit", "sample", "act", "strength") if not hasattr(action, part)]
        raise InputError(f"action {name} lacks {', '.join(lacking)}: see niso.geometry.action.Transformations")
    if not isinstance(action.unit, str):
        raise InputError(f'action {name}: unit must be a text, such as "degrees", not {described(action.unit)}')
    with foreign(f"action {name} does not act on observations {tuple(x.shape)}"):
        moving = any(_check_draw(name, action, x, seed) for seed in range(DRAWS))
    if not moving:
        raise InputError(f"action {name}: none of {DRAWS * len(x)} transformations moves anything: change its settings")
    return action


def _check_draw(name: str, action: Transformations, x: Float[Tensor, "batch ..."], seed: int) -> bool:
    """Check what an action does by transformations of a seed; whether one of them moves its observation. Errors as of
    `check_action`, and whatever the action raises."""
    count, changes = len(x), x._version  # counts what is done in place
    t, again = (action.sample(count, torch.Generator().manual_seed(seed)) for _ in range(2))
    if not isinstance(t, Tensor) or t.shape[:1] != (count,):
        raise InputError(
            f"action {name}: sample({count}) must give a tensor of {count} transformations, not {described(t)}"
        )
    if not torch.equal(t, again):
        raise InputError(f"action {name}: sample must draw by the generator that it gets, for the same again")
    twice = action.compose(t, t) if composes(action) else t
    if not isinstance(twice, Tensor) or twice.shape != t.shape:
        raise InputError(f"action {name}: compose must give {described(t)}, as it gets, not {described(twice)}")
    moved, moved_again, strength = action.act(x, t), action.act(x, t), action.strength(t)
    if x._version != changes:
        raise InputError(f"action {name}: act changes the observations that it gets: let it give others")
    if not isinstance(moved, Tensor) or moved.shape != x.shape or moved.dtype != x.dtype:
        raise InputError(f"action {name}: act must give {described(x)}, as it gets, not {described(moved)}")
    if not moved.isfinite().all():
        low, high = x.aminmax()
        raise InputError(f"action {name}: act gives what is not finite for values from {low:.2g} to {high:.2g}")
    if not torch.equal(moved, moved_again):
        raise InputError(f"action {name}: act must give the same for the same t: let sample draw what is random")
    if not isinstance(strength, Tensor) or strength.shape != (count,):
        raise InputError(f"action {name}: strength must give a tensor of {count} numbers, not {described(strength)}")
    if not (bool((strength >= 0).all()) and bool(strength.isfinite().all())):
        raise InputError(f"action {name}: strength must give finite numbers from 0 on, not {strength.tolist()}")
    if moved[strength > 0].equal(x[strength > 0]) and bool((strength > 0).any()):
        raise InputError(f"action {name}: act leaves observations as they are, though their strength is not 0")
    moving = (moved - x).abs().flatten(1).amax(1) > STILL * x.abs().max()
    if not moving.any():
        return False
    half = count // 2
    apart = action.act(x[half:], t[half:])
    if not (apart - moved[half:]).abs().mean() <= ALIKE * (moved[half:] - x[half:]).abs().mean() + ALIKE**2:
        raise InputError(f"action {name}: act must move each observation by its own transformation, t[i] for x[i]")
    if composes(action):
        smooth = _smooth(x)[moving]
        once, at_once = action.act(smooth, t[moving]), action.act(smooth, twice[moving])
        stepwise = action.act(once, t[moving])
        error, move = ((a - b).abs().flatten(1).mean(1).median() for a, b in ((stepwise, at_once), (once, smooth)))
        if error > TWICE * move:
            say(f"! action {name}: T twice is not T² of compose, off by {error / move:.2g} of T")
    return True


def _smooth(x: Float[Tensor, "batch ..."]) -> Float[Tensor, "batch ..."]:
    """Observations without the high frequencies along their axes, which interpolation loses."""
    for axis in range(1, x.ndim):
        if x.shape[axis] > 8:
            waves = torch.fft.rfft(x, dim=axis)
            waves.narrow(axis, KEPT, waves.shape[axis] - KEPT).zero_()
            x = torch.fft.irfft(waves, x.shape[axis], dim=axis)
    return x


def composes(transformations: Transformations | type[Transformations]) -> TypeGuard[Action]:
    """Whether T² of these transformations, or of those of a class, can be computed."""
    return hasattr(transformations, "compose")


def composed(
    transformations: Transformations, second: Shaped[Tensor, "batch ..."], first: Shaped[Tensor, "batch ..."]
) -> Shaped[Tensor, "batch ..."]:
    """The transformations that act as `first` and then `second`.

    Raises:
        TypeError: they cannot be composed.
    """
    if not composes(transformations):
        raise TypeError(f"{type(transformations).__name__} cannot be applied twice")
    return transformations.compose(second, first)


def powers(
    transformations: Transformations, t: Shaped[Tensor, "batch ..."], count: int
) -> list[Shaped[Tensor, "batch ..."]]:
    """T, T², … up to the power `count`.

    Raises:
        TypeError: for more than T itself, transformations that cannot be composed.
    """
    found = [t]
    while len(found) < count:
        found.append(composed(transformations, t, found[-1]))
    return found[:count]


def on_device_of(x: Tensor, t: Shaped[Tensor, "*shape"]) -> Shaped[Tensor, "*shape"]:
    """Transformations on the device of observations, copied there without making the host wait for the device."""
    return t.to(x.device, non_blocking=x.is_cuda)


def in_single_precision(act: Callable[[A, Tensor, Tensor], Tensor]) -> Callable[[A, Tensor, Tensor], Tensor]:
    """Decorate the `act` of transformations that interpolate or mix values: observations in half precision are moved in
    float32, since the places that they are read at have no digits to lose, and come back in half precision. Autocast
    changes nothing."""

    @wraps(act)
    def wrapped(self: A, x: Tensor, t: Tensor) -> Tensor:
        with without_autocast(x.device.type):
            return act(self, x.to(torch.promote_types(x.dtype, torch.float32)), t).to(x.dtype)

    return wrapped
