"""A spectrum (M, Φ, Λ) of an operator Ω = Φ Λ Φᵀ M on latent functions (paper eq. 4)."""

from __future__ import annotations

from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from niso.checks import ROUNDING, check_number, check_tensors
from niso.linalg import full_precision, matmul


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

    def project(
        self,
        z: Float[Tensor, "*batch points channels"],
        confidence: Float[Tensor, "*batch points"] | None = None,
        ridge: float = 0.01,
    ) -> Float[Tensor, "*batch rank channels"]:
        """Coefficients ΦᵀM z of latent functions in the eigenbasis (paper eq. 6).

        With a confidence C, those of the weighted, regularised least squares over the points that are seen:
        (ΦᵀMCΦ + rI) a = (1 + r) ΦᵀMC z, the same as ΦᵀM z where C = I (not in the paper). They are NaN where a
        confidence is NaN or outside [0, 1], but for rounding, or the left side is not positive definite.

        Args:
            confidence: how far each point is seen, in [0, 1].
            ridge: r, positive: what is not seen is taken to be small.

        Raises:
            TypeError: not tensors of floating-point numbers.
            ValueError: mass, eigenfunctions and eigenvalues that do not fit each other, latents that are not
                (…, points, channels), a confidence that is not (…, points), or a ridge
                that is not positive.
        """
        self._check()
        check_tensors(sizes={"points": len(self.mass)}, latents=(z, "* points channels"))
        if confidence is None:
            return matmul(self._dual, z)
        check_tensors(confidence=(confidence, "* points"))
        if confidence.shape != z.shape[:-1]:
            raise ValueError(f"a confidence must be {tuple(z.shape[:-1])}, not {tuple(confidence.shape)}")
        check_number("ridge", ridge, positive=True)
        return _least_squares(self.mass, self.eigenfunctions, z, confidence, ridge)

    def unproject(self, a: Float[Tensor, "*batch rank channels"]) -> Float[Tensor, "*batch points channels"]:
        """Latent functions Φ a with the given coefficients.

        For rank < points, `unproject` after `project` is the M-orthogonal projection onto the eigenfunctions.

        Raises:
            TypeError: not a tensor of floating-point numbers.
            ValueError: coefficients that are not (…, rank, channels).
        """
        check_tensors(sizes={"rank": self.eigenfunctions.shape[1]}, coefficients=(a, "* rank channels"))
        return matmul(self.eigenfunctions, a)

    def operator(self) -> Float[Tensor, "points points"]:
        """Ω = Φ Λ ΦᵀM as a matrix on latent functions (paper eq. 4).

        Raises:
            TypeError, ValueError: mass, eigenfunctions and eigenvalues do not fit each other.
        """
        self._check()
        return matmul(self.eigenfunctions * self.eigenvalues, self._dual)

    def spatial_map(self, tau: Float[Tensor, "*batch rank rank"]) -> Float[Tensor, "*batch points points"]:
        """Map Φ τ_Ω ΦᵀM on latent functions for a map τ_Ω of coefficients (inverse of paper eq. 5).

        Raises:
            TypeError: not a tensor of floating-point numbers.
            ValueError: mass, eigenfunctions and eigenvalues that do not fit each other, or maps that are not
                (…, rank, rank).
        """
        self._check()
        check_tensors(sizes={"rank": self.eigenfunctions.shape[1]}, tau=(tau, "* rank rank"))
        return matmul(matmul(self.eigenfunctions, tau), self._dual)

    @property
    def _dual(self) -> Float[Tensor, "rank points"]:
        """ΦᵀM."""
        return (self.eigenfunctions * self.mass[:, None]).mT

    def _check(self) -> None:
        """Check that a spectrum, perhaps of a user's own, has its shapes: a mass (points, 1) would be broadcast."""
        check_tensors(
            eigenfunctions=(self.eigenfunctions, "points rank"),
            mass=(self.mass, "points"),
            eigenvalues=(self.eigenvalues, "rank"),
        )


@full_precision
def _least_squares(
    mass: Float[Tensor, " points"],
    functions: Float[Tensor, "points rank"],
    z: Float[Tensor, "*batch points channels"],
    confidence: Float[Tensor, "*batch points"],
    ridge: float,
) -> Float[Tensor, "*batch rank channels"]:
    weighted = (functions * mass[:, None]).mT * confidence[..., None, :]
    normal = weighted @ functions + ridge * torch.eye(functions.shape[1], dtype=z.dtype, device=z.device)
    factor, failed = torch.linalg.cholesky_ex(normal)  # unlike cholesky, it does not make the host wait for a GPU
    shares = ((confidence >= -ROUNDING) & (confidence <= 1 + ROUNDING)).all(-1)
    factor = factor.masked_fill(((failed > 0) | ~shares)[..., None, None], torch.nan)  # maps of NaN are refused
    return torch.cholesky_solve((1 + ridge) * (weighted @ z), factor)
