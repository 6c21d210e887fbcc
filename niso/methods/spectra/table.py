"""A spectrum as numbers for each latent point."""

from __future__ import annotations

import math

from niso.geometry.domains.domain import Domain
from niso.methods.config import IsometryConfig
from niso.methods.spectra.parametrisation import Parametrisation
from niso.spectrum import LearnedSpectrum, smooth_functions


class Table(Parametrisation):
    """A `niso.LearnedSpectrum`: a number for each point."""

    reads = frozenset({"start"})

    @classmethod
    def make(cls, config: IsometryConfig, domain: Domain, grid: tuple[int, ...], rank: int) -> LearnedSpectrum:
        table = LearnedSpectrum(math.prod(grid), rank, config.eigenvalues, config.damping, config.eigenfunctions)
        if config.start == "smooth":
            table.start_eigenfunctions_at_(smooth_functions(domain(*grid).points, rank))
        return table
