"""What a parametrisation of the spectrum must say."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from contextlib import nullcontext
from typing import Any, ClassVar

from niso.checks import described
from niso.errors import InputError, foreign
from niso.geometry.domains.domain import Domain
from niso.methods.part import Part
from niso.spectrum import SpectrumModule


class Parametrisation(Part, ABC):
    """A way to learn mass, eigenfunctions and eigenvalues. A new one is one file and one line in `SPECTRA`."""

    chosen_by = "spectrum"
    needs_places: ClassVar[bool] = False
    """Whether `make` reads where latent points lie. It is refused where nothing says that: functions on points are
    given in no order, and there `domain` only counts them."""

    @classmethod
    @abstractmethod
    def make(cls, config: Any, domain: Domain, grid: tuple[int, ...], rank: int) -> SpectrumModule:
        """The untrained spectrum that such settings describe.

        Args:
            config: all settings, a `niso.methods.config.IsometryConfig`.
            domain: gives the places of the latent points, and weights: `domain(*grid)`. For functions on points these
                are the cells of a line, in the order of the data, which say nothing: see `needs_places`.
            grid: sides of the latent grid, whose product is the number of points.
            rank: number of eigenfunctions.

        Raises:
            ValueError: the rank exceeds what the parametrisation spans, or the points are too many.
        """


def make_spectrum(
    kind: type[Parametrisation], config: Any, domain: Domain, grid: tuple[int, ...], rank: int
) -> SpectrumModule:
    """The untrained spectrum of a kind, see `Parametrisation.make`.

    Raises:
        ValueError: as of `make` of niso's own.
        InputError: the user's own fails; or it gives no spectrum, or one of other points or another rank.
    """
    own = not kind.__module__.startswith("niso.")
    with foreign(f"{kind.__name__}.make fails") if own else nullcontext():
        made = kind.make(config, domain, grid, rank)
    if not isinstance(made, SpectrumModule):
        raise InputError(f"{kind.__name__}.make must give a niso.spectrum.SpectrumModule, not {described(made)}")
    if (made.points, made.rank) != (math.prod(grid), rank):
        raise InputError(
            f"{kind.__name__}.make must give a spectrum of {math.prod(grid)} points and rank {rank}, not of "
            f"{made.points} and {made.rank}"
        )
    return made
