"""The learned spectrum (M, Φ, Λ) of an operator Ω = Φ Λ Φᵀ M on latent functions (paper eq. 4)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, NamedTuple, get_args

import torch
from jaxtyping import Float
from torch import Tensor, nn

from niso.linalg import full_precision, matmul, polar

Eigenvalues = Literal["cumulative", "sorted", "free"]
"""How Λ comes from its parameters l: cumsum(l²), sort(l²), or l² as it stands."""


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
        """Latent functions Φ a with the given coefficients; for rank < points, `unproject` after `project` is
        the M-orthogonal projection onto the eigenfunctions.
        """
        return matmul(self.eigenfunctions, a)

    def operator(self) -> Float[Tensor, "points points"]:
        """Ω = Φ Λ ΦᵀM as a matrix on latent functions (paper eq. 4)."""
        return matmul(self.eigenfunctions * self.eigenvalues, (self.eigenfunctions * self.mass[:, None]).mT)

    def spatial_map(self, tau: Float[Tensor, "*batch rank rank"]) -> Float[Tensor, "*batch points points"]:
        """The map Φ τ_Ω ΦᵀM on latent functions that τ_Ω represents (inverse of paper eq. 5)."""
        return matmul(matmul(self.eigenfunctions, tau), (self.eigenfunctions * self.mass[:, None]).mT)


class LearnedSpectrum(nn.Module):
    """A spectrum whose mass, eigenfunctions and eigenvalues are all learned; call it to get a `Spectrum`.

    With parameters m (points), U (points, rank) and l (rank):

    - M = m² + 1e-8, m starting at 1;
    - Φ = M^(-1/2) polar(M^(1/2) U), U starting at N(0, 0.01²): M-orthonormal after any optimiser step;
    - Λ by `eigenvalues`: "cumulative" is cumsum(l²) with l starting at N(0, 1/rank²), almost all equal;
      "sorted" is sort(l²) with l starting at N(0, 1), the published choice for the Laplacian experiments;
      "free" is l² in no order, so that eigenvalues may pass each other.

    Args:
        points: number N of points of the latent domain.
        rank: number k of eigenfunctions, at most `points`; all of them by default.
        eigenvalues: the parametrisation of Λ.
        damping: damping of the polar factor's gradient, see `niso.polar`.

    Raises:
        ValueError: a rank outside 1 … points, or an unknown parametrisation.

    Half-precision parameters still give a float32 spectrum.

    Source: paper §4.1 and §4.2; the parametrisations are the released code's (docs/notation.md).
    """

    def __init__(
        self,
        points: int,
        rank: int | None = None,
        eigenvalues: Eigenvalues = "cumulative",
        damping: float = 0.0,
    ) -> None:
        super().__init__()
        rank = points if rank is None else rank
        if not 1 <= rank <= points:
            raise ValueError(f"rank {rank} must lie between 1 and the number of points, {points}")
        if eigenvalues not in get_args(Eigenvalues):
            raise ValueError(f"eigenvalues must be one of {get_args(Eigenvalues)}, not {eigenvalues!r}")
        self.parametrisation = eigenvalues
        self.damping = damping
        self.mass_root = nn.Parameter(torch.ones(points))
        self.basis = nn.Parameter(0.01 * torch.randn(points, rank))
        scale = 1 / rank if eigenvalues == "cumulative" else 1.0
        self.eigenvalue_root = nn.Parameter(scale * torch.randn(rank))

    @property
    def points(self) -> int:
        return self.basis.shape[0]

    @property
    def rank(self) -> int:
        return self.basis.shape[1]

    def forward(self) -> Spectrum:
        order = _ORDERS[self.parametrisation]
        return _spectrum(self.mass_root, self.basis, self.eigenvalue_root, order, self.damping)

    def extra_repr(self) -> str:
        return f"points={self.points}, rank={self.rank}, eigenvalues={self.parametrisation!r}"


@full_precision
def _spectrum(
    mass_root: Tensor,
    basis: Tensor,
    eigenvalue_root: Tensor,
    order: Callable[[Tensor], Tensor],
    damping: float,
) -> Spectrum:
    mass = mass_root.square() + 1e-8
    root = mass.sqrt()[:, None]
    return Spectrum(mass, polar(root * basis, damping=damping) / root, order(eigenvalue_root.square()))


_ORDERS: dict[str, Callable[[Tensor], Tensor]] = {
    "cumulative": lambda squares: squares.cumsum(0),
    "sorted": lambda squares: squares.sort().values,
    "free": lambda squares: squares,
}
