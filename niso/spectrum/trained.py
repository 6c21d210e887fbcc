"""What spectra that are learned share: eigenvalues, and eigenfunctions as rotations of a frame."""

from __future__ import annotations

from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor, nn

from niso.checks import check_choice
from niso.spectrum.eigenvalues import Eigenvalues, ordered
from niso.spectrum.module import SpectrumModule
from niso.spectrum.rotation import Eigenfunctions, newton_schulz, retract_


class TrainedSpectrum(SpectrumModule):
    """Base of `LearnedSpectrum` and `FieldSpectrum`, which make its parameters.

    Args:
        eigenvalues: parametrisation of Λ.
        eigenfunctions: parametrisation of Φ.

    Raises:
        ValueError: an unknown parametrisation.
    """

    basis: nn.Parameter
    eigenvalue_root: nn.Parameter
    frame: Tensor

    def __init__(self, eigenvalues: Eigenvalues, eigenfunctions: Eigenfunctions) -> None:
        super().__init__()
        check_choice("eigenvalues", eigenvalues, Eigenvalues)
        check_choice("eigenfunctions", eigenfunctions, Eigenfunctions)
        self.eigenvalue_kind: Eigenvalues = eigenvalues
        self.eigenfunction_kind: Eigenfunctions = eigenfunctions

    @property
    def rank(self) -> int:
        return len(self.eigenvalue_root)

    def eigenvalues_alone(self) -> Float[Tensor, " rank"]:
        return ordered(self.eigenvalue_root, self.eigenvalue_kind)

    @torch.no_grad()
    def retract_(self) -> None:
        """Move the rotation from the basis into the frame, which leaves the spectrum unchanged.

        Call it after every optimiser step with "rotation"; with "polar" it does nothing.
        """
        if self.eigenfunction_kind == "rotation":
            retract_(self.frame, self.basis)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> TrainedSpectrum:
        before = self.eigenvalue_root.dtype
        super()._apply(fn, recurse)
        if self.eigenfunction_kind == "rotation" and before != self.frame.dtype == torch.float64:
            self.frame = newton_schulz(self.frame)  # it was orthonormal to the precision that it had
        return self

    def extra_repr(self) -> str:
        return (
            f"points={self.points}, rank={self.rank}, eigenvalues={self.eigenvalue_kind!r}, "
            f"eigenfunctions={self.eigenfunction_kind!r}"
        )
