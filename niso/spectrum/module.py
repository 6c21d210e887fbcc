"""What a model and its training need of a module that gives a spectrum."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Literal

from jaxtyping import Float
from torch import Tensor, nn

from niso.spectrum.spectrum import Spectrum

Role = Literal["eigenfunctions", "eigenvalues", "mass"]
"""A part of a spectrum: each has a learning rate of its own in the training, see `niso.config.Optimisation`."""


class SpectrumModule(nn.Module, ABC):
    """A module that gives a `Spectrum` when called, and says how it wants to be trained.

    `niso.NeuralIsometry` needs no more than the call; the training loop also asks for `roles` and calls `retract_`.
    """

    @property
    @abstractmethod
    def points(self) -> int:
        """Number N of points of its spectrum."""

    @property
    @abstractmethod
    def rank(self) -> int:
        """Number k of eigenfunctions."""

    @abstractmethod
    def forward(self) -> Spectrum:
        """The spectrum at its own points."""

    def eigenvalues_alone(self) -> Float[Tensor, " rank"]:
        """Λ of the spectrum, without the work for Φ, which takes a decomposition where it is learned."""
        return self().eigenvalues

    def at(
        self,
        points: Float[Tensor, "others dimensions"],
        weights: Float[Tensor, " others"] | None = None,
        orthonormal: bool = True,
    ) -> Spectrum | None:
        """The spectrum at other points, see `niso.FieldSpectrum.at`; None where it is known at its own points alone."""
        return None

    def roles(self) -> dict[Role, list[nn.Parameter]]:
        """Its parameters that have a learning rate of their own, by what they determine; none where nothing is learned.

        What it leaves out is trained as the networks are.
        """
        return {}

    def start_mass_at_(self, mass: Float[Tensor, " points"]) -> bool:  # most do nothing
        """Start the mass at these positive numbers, before training, where it is a table of one for each point.

        Returns:
            Whether it starts there: a line says so where nothing reads the weights that data has.
        """
        return False

    def retract_(self) -> None:  # most do nothing
        """Tidy the parameters after an optimiser step, in a way that leaves the spectrum unchanged."""
        return

    if TYPE_CHECKING:

        def __call__(self) -> Spectrum: ...
