"""Which lenses niso's pinhole camera stands for: those with little distortion, by one rule for all formats."""

from __future__ import annotations

import math
from typing import NamedTuple

from niso.errors import InputError

MODELS = ("SIMPLE_PINHOLE", "PINHOLE", "PERSPECTIVE", "SIMPLE_RADIAL", "RADIAL", "OPENCV", "FULL_OPENCV")
"""Perspective models, by the names that COLMAP and nerfstudio give them."""
MILD = 0.2
"""Largest shift of an image point by distortion, relative to its distance from the centre of the image."""

_STEPS = 32


class Lens(NamedTuple):
    """A lens as a reconstruction states it.

    Attributes:
        model: see `MODELS`; other models have another projection.
        half: half the side of the largest centred square of the image, divided by the focal length across and by that
            down; NaN where unknown.
        radial: k₁, k₂, … of the factor 1 + k₁r² + k₂r⁴ + … on the distance r from the centre.
        divided: likewise for the polynomial that this factor is divided by.
        tangential: p₁, p₂.
    """

    model: str
    half: tuple[float, float]
    radial: tuple[float, ...] = ()
    divided: tuple[float, ...] = ()
    tangential: tuple[float, ...] = ()


def check_pinhole(lens: Lens) -> None:
    """Check that a lens is nearly a pinhole on the largest centred square of its image, which is all that niso uses.

    Distortion is as OpenCV defines it.

    Raises:
        InputError: it has another projection, a focal length that is not positive, distorts more than `MILD`, or its
            distortion cannot be judged.
    """
    remedy = "undistort the images, e.g. by `colmap image_undistorter`"
    if lens.model not in MODELS:
        raise InputError(f"its lens {lens.model} is not a pinhole (one of {', '.join(MODELS)}): {remedy}")
    if any(half <= 0 for half in lens.half):
        raise InputError("its focal length or its image's size is not positive: correct it")
    numbers = (*lens.radial, *lens.divided, *lens.tangential)
    if not any(numbers):
        return
    if not all(map(math.isfinite, (*numbers, *lens.half))):
        raise InputError(f"its lens is distorted, and its focal length or the images' size is not known: {remedy}")
    corner = math.hypot(*lens.half)
    shift = max(_shift(lens, corner * step / _STEPS) for step in range(1, _STEPS + 1))
    if shift > MILD:
        raise InputError(f"its lens distorts by {shift:.0%}, and at most {MILD:.0%} pass for a pinhole: {remedy}")


def _shift(lens: Lens, radius: float) -> float:
    """Upper bound of the relative shift of points at a distance from the centre."""
    above, below = (
        1 + sum(k * radius ** (2 * power) for power, k in enumerate(terms, 1)) for terms in (lens.radial, lens.divided)
    )
    return math.inf if below <= 0 else abs(above / below - 1) + 3 * math.hypot(0, *lens.tangential) * radius
