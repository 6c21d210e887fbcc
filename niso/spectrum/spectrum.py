"""A spectrum (M, Φ, Λ) of an operator Ω = Φ Λ Φᵀ M on latent functions (paper eq. 4)."""

from __future__ import annotations

from typing import NamedTuple

from jaxtyping import Float
from torch import Tensor

from niso.linalg import matmul


class Spectrum(NamedTuple):
    """Mass, eigenfunctions and eigenvalues of a self-adjoint operator, with ΦᵀMΦ = I.

    Attributes:
        mass: (points,) positive numbers, the diagonal of M.
        eigenfunctions: (points, rank) M-orthonormal columns Φ.
        eigenvalues: (rank,) non-negative numbers Λ.
    """

    mass: Float[Tensor, " points"]
    eigenfunctions: Float[Tensor, "points rank"]
    eigenvalues: Float[Tensor, " rank"]

    def project(self, z: Float[Tensor, "*batch points channels"]) -> Float[Tensor, "*batch rank channels"]:
        """Coefficients ΦᵀM z of latent functions in the eigenbasis (paper eq. 6).

        Raises:
            ValueError: latents that are not (…, points, channels).
        """
        if z.ndim < 2 or z.shape[-2] != len(self.mass):
            raise ValueError(f"latents must be (…, {len(self.mass)} points, channels), not {tuple(z.shape)}")
        return matmul((self.eigenfunctions * self.mass[:, None]).mT, z)

    def unproject(self, a: Float[Tensor, "*batch rank channels"]) -> Float[Tensor, "*batch points channels"]:
        """Latent functions Φ a with the given coefficients.

        For rank < points, `unproject` after `project` is the M-orthogonal projection onto the eigenfunctions.
        """
        return matmul(self.eigenfunctions, a)

    def operator(self) -> Float[Tensor, "points points"]:
        """Ω = Φ Λ ΦᵀM as a matrix on latent functions (paper eq. 4)."""
        return matmul(self.eigenfunctions * self.eigenvalues, (self.eigenfunctions * self.mass[:, None]).mT)

    def spatial_map(self, tau: Float[Tensor, "*batch rank rank"]) -> Float[Tensor, "*batch points points"]:
        """Map Φ τ_Ω ΦᵀM on latent functions for a map τ_Ω of coefficients (inverse of paper eq. 5)."""
        return matmul(matmul(self.eigenfunctions, tau), (self.eigenfunctions * self.mass[:, None]).mT)
