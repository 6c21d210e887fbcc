"""A spectrum as networks over the coordinates of points."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from niso.geometry.domains.domain import Domain
from niso.methods.config import IsometryConfig
from niso.methods.spectra.parametrisation import Parametrisation
from niso.spectrum import FieldSpectrum


def field_spectrum(
    config: IsometryConfig, points: Float[Tensor, "points dimensions"], rank: int, weights: Float[Tensor, " points"]
) -> FieldSpectrum:
    """A field of these settings at points.

    Args:
        weights: how much of the domain each point stands for.
    """
    return FieldSpectrum(
        points,
        rank,
        weights,
        **asdict(config.field),
        eigenvalues=config.eigenvalues,
        eigenfunctions=config.eigenfunctions,
    )


class Field(Parametrisation):
    """A `niso.FieldSpectrum`: networks over the coordinates of points."""

    reads = frozenset({"field"})
    needs_places = True

    @classmethod
    def unread(cls, config: Any) -> dict[str, str]:
        features = config.field.features
        names = {"coordinates": ("frequencies", "scale"), "fourier": (), "periodic": ("scale",)}[features]
        unread = {f"field.{name}": f"--field.features are {features}" for name in names}
        hidden = () if config.field.layers else ("field.gain", "field.width")
        return unread | dict.fromkeys(hidden, "--field.layers is 0")

    @classmethod
    def make(cls, config: IsometryConfig, domain: Domain, grid: tuple[int, ...], rank: int) -> FieldSpectrum:
        places, weights = (part.to(torch.get_default_dtype()) for part in domain(*grid))
        return field_spectrum(config, places, rank, weights)
