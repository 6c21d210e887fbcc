"""Checks of what comes into the library: one clear line for a wrong tensor or setting."""

from __future__ import annotations

import math
import operator
from collections.abc import Mapping
from typing import Any, Literal, SupportsIndex, get_args

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

ROUNDING = 1e-2
"""How far a share in half precision may lie outside [0, 1]."""

Kind = Literal["floating-point numbers", "integers", "booleans"]
Scalar = float | Float[Tensor, ""]
"""A number, or one that a device holds: compiled code is then the same for every number."""


def check_tensors(
    kind: Kind = "floating-point numbers", sizes: Mapping[str, int] | None = None, **named: tuple[Any, str]
) -> None:
    """Check types and shapes of tensors that share dimensions.

    Args:
        kind: what all of them hold.
        sizes: sizes that some dimensions must have.
        named: a tensor and its shape, for each name: `a=(a, "* rank channels")`, where `*` is any batch. Dimensions of
            one name must be of one size, a rank at least 1, and batches `*` must broadcast.

    Raises:
        TypeError: not a tensor, or one of another kind.
        ValueError: a shape that does not fit; the message says which and what would.
    """
    known: dict[str, tuple[int, str]] = {dimension: (size, "") for dimension, size in (sizes or {}).items()}
    batches = {}
    for name, (value, shape) in named.items():
        check_tensor(name, value, kind)
        dimensions = shape.split()
        batched = dimensions[0] == "*"
        dimensions = dimensions[1:] if batched else dimensions
        count = len(dimensions)
        if value.ndim < count or (value.ndim > count and not batched):
            _refuse_shape(name, value, dimensions, batched, known)
        for dimension, size in zip(dimensions, value.shape[value.ndim - count :], strict=True):
            empty = dimension == "rank" and size == 0
            if empty or size != known.setdefault(dimension, (size, name))[0]:
                _refuse_shape(name, value, dimensions, batched, known)
        if batched:
            batches[name] = value.shape[: value.ndim - count]
    # A program may be exported for batches of any size. torch.broadcast_shapes is slow, and this is called often.
    if not torch.compiler.is_compiling() and len(set(batches.values())) > 1:
        try:
            torch.broadcast_shapes(*batches.values())
        except RuntimeError:
            shapes = ", ".join(f"{tuple(batch)} of {name}" for name, batch in batches.items())
            raise ValueError(f"batches must be equally long, not {shapes}") from None


def described(value: object) -> str:
    """What a message calls a value: a tensor by its numbers and shape, anything else by its type."""
    return f"{value.dtype} of {tuple(value.shape)}" if isinstance(value, Tensor) else type(value).__name__


def check_tensor(name: str, value: object, kind: Kind | None = None) -> None:
    """Check that a value is a tensor that holds numbers of a kind.

    Raises:
        TypeError: it is not.
    """
    if not isinstance(value, Tensor):
        what = type(value)
        hint = ": torch.from_numpy makes one of it" if what.__module__ == "numpy" else ""
        raise TypeError(f"{name} must be a torch.Tensor, not {what.__module__}.{what.__qualname__}{hint}")
    if kind is None:
        return
    floating, boolean = value.is_floating_point(), value.dtype == torch.bool
    whole = not (floating or boolean or value.is_complex())
    if not {"floating-point numbers": floating, "integers": whole, "booleans": boolean}[kind]:
        raise TypeError(f"{name} must hold {kind}, not {value.dtype}")


def _refuse_shape(
    name: str, value: Tensor, dimensions: list[str], batched: bool, known: Mapping[str, tuple[int, str]]
) -> None:
    shape = ", ".join([*(["…"] if batched else []), *dimensions]) + (
        "," if len(dimensions) == 1 and not batched else ""
    )
    count, sizes = len(dimensions), {}
    fits = value.ndim == count or (batched and value.ndim > count)  # then only the sizes that differ are named
    for place, dimension in enumerate(dimensions, value.ndim - count):
        size, source = known.get(dimension, (0, name))
        if source != name and not (fits and value.shape[place] == size):
            sizes[dimension] = size, source
    clause = " with " + " and ".join(f"{d} {size}" for d, (size, _) in sizes.items()) if sizes else ""
    if source := " and ".join(dict.fromkeys(other for _, other in sizes.values() if other)):
        clause += f" as in {source}"
    empty = " (empty)" if 0 in value.shape else ""
    raise ValueError(f"{name} must be ({shape}){clause}, not {tuple(value.shape)}{empty}")


def choices_of(choices: Any) -> tuple[object, ...]:
    """What a `Literal` admits, with None where the type says so, or the names in a registry."""
    known: list[object] = []
    for choice in get_args(choices) or choices:
        known += get_args(choice) or [None if choice is type(None) else choice]
    return tuple(known)


def check_choice(name: str, value: object, choices: Any) -> None:
    """Check that a value is one of a `Literal` or a registry, or of their `choices_of`: what is compiled or exported
    takes these, for torch 2.6 cannot trace how they are found.

    Raises:
        ValueError: it is not.
    """
    known = choices if isinstance(choices, tuple) else choices_of(choices)
    if value not in known:
        words = [repr(word) if word is None else f'"{word}"' for word in known]
        raise ValueError(f"{name} must be {', '.join(words[:-1])} or {words[-1]}, not {value!r}")


def check_number(name: str, value: Scalar, positive: bool = False, most: float | None = None) -> None:
    """Check that a number is at least 0, or greater than 0, and at most `most`, or finite. One on a GPU is not looked
    at.

    Raises:
        TypeError: not a number.
        ValueError: too small, too large, or NaN.
    """
    if isinstance(value, Tensor) and (torch.compiler.is_compiling() or value.device.type != "cpu"):
        return  # the host would wait for its value
    try:
        fits = (value > 0 if positive else value >= 0) and (value < math.inf if most is None else value <= most)
    except TypeError:
        raise TypeError(f"{name} must be a number, not {value!r}") from None
    if not fits:
        rule = "be positive" if positive else "not be negative" if most is None else f"lie in [0, {most:g}]"
        rule = "be finite" if most is None and value == math.inf else rule
        raise ValueError(f"{name} must {rule}, got {value}")


def check_shares(name: str, value: Tensor, advice: str) -> None:
    """Check that all numbers lie in [0, 1], up to rounding; on a CPU, since the host would wait for a GPU's answer.

    NaN passes: numerics report it.

    Raises:
        ValueError: one does not; the message ends with `advice`.
    """
    if torch.compiler.is_compiling() or value.device.type != "cpu" or not value.numel():
        return
    low, high = (float(bound) for bound in value.detach().aminmax())
    if low < -ROUNDING or high > 1 + ROUNDING:
        raise ValueError(f"{name} must lie in [0, 1], not from {low:.3g} to {high:.3g}: {advice}")


def check_mass(mass: Float[Tensor, " points"]) -> None:
    """Check that a mass, the diagonal of M, is positive and finite.

    Raises:
        ValueError: it is not, at some point.
    """
    if not bool(((mass > 0) & mass.isfinite()).all()):
        raise ValueError("a mass must be positive and finite at every point")


def check_count(name: str, value: SupportsIndex) -> int:
    """A whole number of at least 1.

    Raises:
        TypeError: not a whole number, as True is not.
        ValueError: less than 1.
    """
    try:
        if isinstance(value, bool) or (isinstance(value, Tensor) and value.dtype == torch.bool):
            raise TypeError
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"{name} must be a whole number, not {value!r}") from None
    if number < 1:
        raise ValueError(f"{name} must be at least 1, got {number}")
    return number


def check_flag(name: str, value: object) -> None:
    """Check that a value is True or False, and not, say, the word "no", which counts as true.

    Raises:
        TypeError: it is neither.
    """
    if not isinstance(value, bool | np.bool_):
        raise TypeError(f"{name} must be True or False, not {value!r}")


def check_instance(name: str, value: object, kind: type, text: str) -> None:
    """Check that a value is of a type, which messages call `text`.

    Raises:
        TypeError: it is not.
    """
    if not isinstance(value, kind):
        raise TypeError(f"{name} must be a {text}, not {type(value).__name__}")
