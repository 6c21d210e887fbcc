"""What a parametrisation of the spectrum must say."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from niso.geometry.domains.domain import Domain
from niso.methods.part import Part
from niso.spectrum import SpectrumModule


class Parametrisation(Part, ABC):
    """A way to learn mass, eigenfunctions and eigenvalues. A new one is one file and one line in `SPECTRA`."""

    @classmethod
    @abstractmethod
    def make(cls, config: Any, domain: Domain, grid: tuple[int, ...], rank: int) -> SpectrumModule:
        """The untrained spectrum that such settings describe.

        Args:
            config: all settings, a `niso.methods.config.IsometryConfig`.
            domain: gives the places of the latent points, and weights: `domain(*grid)`.
            grid: sides of the latent grid, whose product is the number of points.
            rank: number of eigenfunctions.

        Raises:
            ValueError: the rank exceeds what the parametrisation spans, or the points are too many.
        """
