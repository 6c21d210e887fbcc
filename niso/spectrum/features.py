"""What a field's network sees of a point: its coordinates, random Fourier features of them, or periodic ones."""

from __future__ import annotations

import math
from itertools import product
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn

from niso.checks import check_choice, check_count
from niso.linalg import full_precision

Features = Literal["coordinates", "fourier", "periodic"]
"""What a field's network sees of a point: the coordinates as they are; these and random Fourier features; or Fourier
features of the lowest whole frequencies alone, which make the field periodic."""

MOST = 10
"""Coordinates of points with periodic features, at most: of the lowest whole frequencies there are 3 to this power."""


class PointFeatures(nn.Module):
    """Features of points x with `dimensions` coordinates, which should lie between −1 and 1.

    - "coordinates": x;
    - "fourier": x, cos(πBx) and sin(πBx), for frequencies B drawn from N(0, scale²): 1 is one period from −1 to 1;
    - "periodic": cos(πBx) and sin(πBx), for the lowest whole frequencies B, by their largest entry: of period 2 along
      every axis. Of a frequency and its opposite only one is taken.

    Raises:
        TypeError: frequencies that are no whole number.
        ValueError: an unknown kind, a number that is not positive, or periodic features of more than 10 coordinates.

    Source: Rahimi, Recht, "Random features for large-scale kernel machines", 2007; Tancik et al., "Fourier features
    let networks learn high frequency functions in low dimensional domains", 2020.
    """

    frequencies: Tensor

    def __init__(self, kind: Features, dimensions: int, frequencies: int = 48, scale: float = 1.5) -> None:
        super().__init__()
        check_choice("features", kind, Features)
        if kind != "coordinates":
            frequencies = check_count("frequencies", frequencies)
            if not 0 < scale < math.inf:
                raise ValueError(f"the scale of frequencies must be positive, got {scale}")
        self.kind, self.dimensions = kind, dimensions
        if kind == "fourier":
            drawn = scale * torch.randn(frequencies, dimensions)
        elif kind == "periodic":
            if dimensions > MOST:
                raise ValueError(f"periodic features take at most {MOST} coordinates, not {dimensions}: take fourier")
            drawn = _whole_frequencies(dimensions, frequencies)
        else:
            drawn = torch.zeros(0, dimensions)
        self.register_buffer("frequencies", drawn)

    @property
    def count(self) -> int:
        """Number of features of a point."""
        return 2 * len(self.frequencies) + (0 if self.kind == "periodic" else self.dimensions)

    def forward(self, x: Float[Tensor, "points dimensions"]) -> Float[Tensor, "points features"]:
        return _features(x, self.frequencies, self.kind != "periodic")


@full_precision
def _features(
    x: Float[Tensor, "points dimensions"], frequencies: Float[Tensor, "frequencies dimensions"], plain: bool
) -> Float[Tensor, "points features"]:
    phase = math.pi * x @ frequencies.mT
    return torch.cat([*([x] if plain else []), phase.cos(), phase.sin()], dim=-1)


def _whole_frequencies(dimensions: int, count: int) -> Float[Tensor, "count dimensions"]:
    """So many of the lowest whole frequencies, up to their signs and without 0."""
    largest = 1
    while ((2 * largest + 1) ** dimensions - 1) // 2 < count:
        largest += 1
    box = product(range(-largest, largest + 1), repeat=dimensions)
    half = [b for b in box if b > (0,) * dimensions]
    half.sort(key=lambda b: (max(map(abs, b)), sum(n * n for n in b), b))
    return torch.tensor(half[:count], dtype=torch.get_default_dtype())
