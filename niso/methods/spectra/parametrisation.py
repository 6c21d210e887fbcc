"""What a parametrisation of the spectrum must say."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from niso.methods.part import Part
from niso.spectrum import SpectrumModule

if TYPE_CHECKING:
    from niso.methods.config import IsometryConfig
    from niso.methods.method import Networks


class Parametrisation(Part, ABC):
    """A way to learn mass, eigenfunctions and eigenvalues. A new one is one file and one line in `SPECTRA`."""

    @classmethod
    @abstractmethod
    def make(cls, config: IsometryConfig, networks: Networks, rank: int) -> SpectrumModule:
        """The untrained spectrum that such settings describe, on the latent grid of these networks.

        Args:
            config: all settings.
            networks: whose `points` and `domain` the spectrum is for.
            rank: number of eigenfunctions.

        Raises:
            ValueError: the rank exceeds what the parametrisation spans, or the points are too many.
        """
