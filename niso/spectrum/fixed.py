"""A spectrum that is given, such as eigenpairs of a Laplacian."""

from __future__ import annotations

from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor

from niso.checks import check_mass, check_tensors
from niso.spectrum.module import SpectrumModule
from niso.spectrum.spectrum import Spectrum

TOLERANCE = 1e-3
"""How far an entry of ΦᵀMΦ may be from that of I."""


class FixedSpectrum(SpectrumModule):
    """A spectrum that is given and not trained; call it to get the `Spectrum`.

    With the Laplace–Beltrami eigenpairs of a surface, `niso.NeuralIsometry` becomes the classical functional map
    (`niso.geometry.mesh.classical.fixed_spectrum` makes it from a mesh). It stays in single precision, or the double
    precision that it is moved to, also where a model is put into half precision.

    Args:
        mass: (points,) positive numbers, the diagonal of M.
        eigenfunctions: (points, rank) M-orthonormal columns Φ.
        eigenvalues: (rank,) non-negative numbers Λ.

    Raises:
        TypeError: not tensors of floating-point numbers.
        ValueError: shapes that do not fit, a mass that is not positive, negative eigenvalues, numbers that are not
            finite, or eigenfunctions that are not M-orthonormal: ΦᵀMΦ differs from I by more than 1e-3.
    """

    mass: Tensor
    eigenfunctions: Tensor
    eigenvalues: Tensor

    def __init__(
        self,
        mass: Float[Tensor, " points"],
        eigenfunctions: Float[Tensor, "points rank"],
        eigenvalues: Float[Tensor, " rank"],
    ) -> None:
        super().__init__()
        check_tensors(
            eigenfunctions=(eigenfunctions, "points rank"), mass=(mass, "points"), eigenvalues=(eigenvalues, "rank")
        )
        if not all(bool(part.isfinite().all()) for part in (mass, eigenfunctions, eigenvalues)):
            raise ValueError("a spectrum must be finite")
        check_mass(mass)
        if bool((eigenvalues < -1e-6 * eigenvalues.abs().max()).any()):
            raise ValueError("eigenvalues must not be negative")
        gram = eigenfunctions.double().mT @ (mass.double()[:, None] * eigenfunctions.double())
        error = (gram - torch.eye(len(gram), dtype=gram.dtype, device=gram.device)).abs().max().item()
        if error > TOLERANCE:
            raise ValueError(f"eigenfunctions must be M-orthonormal, but ΦᵀMΦ differs from I by {error:.3g}")
        wide = torch.promote_types(eigenfunctions.dtype, torch.float32)
        self.register_buffer("mass", mass.detach().to(wide, copy=True))
        self.register_buffer("eigenfunctions", eigenfunctions.detach().to(wide, copy=True))
        self.register_buffer("eigenvalues", eigenvalues.detach().to(wide).clamp_min(0))

    @property
    def points(self) -> int:
        return self.eigenfunctions.shape[0]

    @property
    def rank(self) -> int:
        return self.eigenfunctions.shape[1]

    def forward(self) -> Spectrum:
        return Spectrum(self.mass, self.eigenfunctions, self.eigenvalues)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> FixedSpectrum:
        before = dict(self.named_buffers())
        super()._apply(fn, recurse)
        for name, moved in dict(self.named_buffers()).items():
            if torch.finfo(moved.dtype).bits < 32:  # it would no longer be M-orthonormal, and eigenvalues would merge
                setattr(self, name, before[name].to(moved.device))
        return self

    def extra_repr(self) -> str:
        return f"points={self.points}, rank={self.rank}"
