"""A spectrum as numbers for each latent point."""

from __future__ import annotations

from niso.methods.config import IsometryConfig
from niso.methods.method import Networks
from niso.methods.spectra.parametrisation import Parametrisation
from niso.spectrum import LearnedSpectrum, smooth_functions


class Table(Parametrisation):
    """A `niso.LearnedSpectrum`: a number for each point."""

    reads = frozenset({"start"})

    @classmethod
    def make(cls, config: IsometryConfig, networks: Networks, rank: int) -> LearnedSpectrum:
        table = LearnedSpectrum(networks.points, rank, config.eigenvalues, config.damping, config.eigenfunctions)
        if config.start == "smooth":
            table.start_eigenfunctions_at_(smooth_functions(networks.domain(*networks.grid).points, rank))
        return table
