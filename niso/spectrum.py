"""The learned spectrum (M, Φ, Λ) of an operator Ω = Φ Λ Φᵀ M on latent functions (paper eq. 4)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, NamedTuple, get_args

import torch
from jaxtyping import Float
from torch import Tensor, nn

from niso.linalg import full_precision, matmul, polar

Eigenvalues = Literal["cumulative", "sorted", "shifted"]
"""Parametrisation of Λ by l: cumsum(l²), sort(l²), or l − min(l)."""

Eigenfunctions = Literal["polar", "rotation"]
"""Parametrisation of Φ: a polar factor, or a rotation of an orthonormal frame."""


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
        smooth: bool = False,
    ) -> Float[Tensor, "*batch rank channels"]:
        """Coefficients ΦᵀM z of latent functions in the eigenbasis (paper eq. 6).

        With a confidence C, those of the weighted, regularised least squares over the points that are seen:
        (ΦᵀMCΦ + rR) a = (1 + r) ΦᵀMC z, the same as ΦᵀM z where C = I and R = I (not in the paper).

        Args:
            confidence: how far each point is seen, in [0, 1].
            ridge: r, positive: what is not seen is taken to be small.
            smooth: R = Λ / mean Λ, which asks for smooth functions, instead of the identity.

        Raises:
            ValueError: latents that are not (…, points, channels), a confidence that is not (…, points), or a ridge
                that is not positive.
        """
        if z.ndim < 2 or z.shape[-2] != len(self.mass):
            raise ValueError(f"latents must be (…, {len(self.mass)} points, channels), not {tuple(z.shape)}")
        if confidence is None:
            return matmul((self.eigenfunctions * self.mass[:, None]).mT, z)
        if confidence.shape != z.shape[:-1]:
            raise ValueError(f"a confidence must be {tuple(z.shape[:-1])}, not {tuple(confidence.shape)}")
        if not ridge > 0:
            raise ValueError(f"ridge must be positive, got {ridge}")
        return _least_squares(self, z, confidence, ridge, smooth)

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


class LearnedSpectrum(nn.Module):
    """A spectrum whose mass, eigenfunctions and eigenvalues are all learned; call it to get a `Spectrum`.

    Its parameters are `mass_root` m (points), `basis` (points, rank) and `eigenvalue_root` l (rank):

    - M = m² + 1e-8; m starts at 1.
    - Φ by `eigenfunctions`, M-orthonormal after any optimiser step:
      "polar" is M^(-1/2) polar(M^(1/2) U) for the basis U, which starts at N(0, 0.01²);
      "rotation" is M^(-1/2) F cayley(W) for an orthonormal frame F and a skew matrix W, whose entries are the basis;
      W starts at 0. Call `retract_` after every optimiser step: it moves the rotation into the frame. Each entry of
      the basis is then the angle between two eigenfunctions at every step, and Adam's moments are those of angles.
    - Λ by `eigenvalues`:
      "cumulative" is cumsum(l²); l starts at N(0, 1/rank²), which makes almost all eigenvalues equal;
      "sorted" is sort(l²); l starts at N(0, 1), the published choice for the Laplacian experiments;
      "shifted" is l − min(l), in no order; l starts evenly spaced from 0 to 1. Eigenvalues may pass each other,
      and none stays at 0, where the gradient of a square vanishes.

    Args:
        points: number N of points of the latent domain.
        rank: number k of eigenfunctions, at most `points`, which is the default.
        eigenvalues: parametrisation of Λ.
        damping: damping of the polar factor's derivative, see `niso.polar`.
        eigenfunctions: parametrisation of Φ. "rotation" solves a (points, points) system in each call, except right
            after `retract_` on a CPU; there its first derivatives alone are exact.

    Raises:
        ValueError: a rank outside 1 … points, or an unknown parametrisation.

    Half-precision parameters still give a float32 spectrum.

    Source: paper §4.1 and §4.2; "polar", "cumulative" and "sorted" are the released code's (docs/notation.md);
    "rotation" is the dynamic trivialisation of Lezcano-Casado (2019) with the Cayley map.
    """

    frame: Tensor

    def __init__(
        self,
        points: int,
        rank: int | None = None,
        eigenvalues: Eigenvalues = "cumulative",
        damping: float = 0.0,
        eigenfunctions: Eigenfunctions = "polar",
    ) -> None:
        super().__init__()
        rank = points if rank is None else rank
        if not 1 <= rank <= points:
            raise ValueError(f"rank {rank} must lie between 1 and the number of points, {points}")
        if eigenvalues not in get_args(Eigenvalues):
            raise ValueError(f"eigenvalues must be one of {get_args(Eigenvalues)}, not {eigenvalues!r}")
        if eigenfunctions not in get_args(Eigenfunctions):
            raise ValueError(f"eigenfunctions must be one of {get_args(Eigenfunctions)}, not {eigenfunctions!r}")
        self.eigenvalue_kind, self.eigenfunction_kind = eigenvalues, eigenfunctions
        self.damping = damping
        self.mass_root = nn.Parameter(torch.ones(points))
        if eigenfunctions == "rotation":
            self.register_buffer("frame", torch.linalg.qr(torch.randn(points, points)).Q)
            self.basis = nn.Parameter(torch.zeros(points, rank))
        else:
            self.basis = nn.Parameter(0.01 * torch.randn(points, rank))
        self.eigenvalue_root = nn.Parameter(_START[eigenvalues](rank))

    @property
    def points(self) -> int:
        return self.basis.shape[0]

    @property
    def rank(self) -> int:
        return self.basis.shape[1]

    def forward(self) -> Spectrum:
        order = _ORDER[self.eigenvalue_kind]
        mass, root, eigenvalues = _mass_and_eigenvalues(self.mass_root, self.eigenvalue_root, order)
        if self.eigenfunction_kind == "rotation":
            orthonormal = _rotated(self.frame, self.basis)
        else:
            orthonormal = polar(root * self.basis, damping=self.damping)
        return Spectrum(mass, orthonormal / root, eigenvalues)

    @torch.no_grad()
    def retract_(self) -> None:
        """Move the rotation from the basis into the frame, which leaves the spectrum unchanged.

        Call it after every optimiser step with "rotation"; with "polar" it does nothing.
        """
        if self.eigenfunction_kind == "rotation":
            frame = self.frame @ _cayley(_skew(self.basis))
            gram = frame.mT @ frame  # the third-order Newton–Schulz step below stops rounding errors from accumulating
            self.frame.copy_(
                frame
                @ (15 * torch.eye(len(gram), dtype=gram.dtype, device=gram.device) - 10 * gram + 3 * gram @ gram)
                / 8
            )
            self.basis.zero_()

    def extra_repr(self) -> str:
        return (
            f"points={self.points}, rank={self.rank}, eigenvalues={self.eigenvalue_kind!r}, "
            f"eigenfunctions={self.eigenfunction_kind!r}"
        )


@full_precision
def _least_squares(
    spectrum: Spectrum,
    z: Float[Tensor, "*batch points channels"],
    confidence: Float[Tensor, "*batch points"],
    ridge: float,
    smooth: bool,
) -> Float[Tensor, "*batch rank channels"]:
    mass, functions, eigenvalues = spectrum
    weighted = (functions * mass[:, None]).mT * confidence[..., None, :]
    penalty = eigenvalues / eigenvalues.mean().clamp_min(1e-6) + 1e-3 if smooth else torch.ones_like(eigenvalues)
    normal = weighted @ functions + ridge * torch.diag(penalty)
    return torch.cholesky_solve((1 + ridge) * (weighted @ z), torch.linalg.cholesky(normal))


@full_precision
def _mass_and_eigenvalues(
    mass_root: Float[Tensor, " points"],
    eigenvalue_root: Float[Tensor, " rank"],
    order: Callable[[Tensor], Tensor],
) -> tuple[Float[Tensor, " points"], Float[Tensor, "points 1"], Float[Tensor, " rank"]]:
    mass = mass_root.square() + 1e-8
    return mass, mass.sqrt()[:, None], order(eigenvalue_root)


@full_precision
def _rotated(
    frame: Float[Tensor, "points points"], basis: Float[Tensor, "points rank"]
) -> Float[Tensor, "points rank"]:
    """First columns of the frame, rotated by cayley(W)."""
    rank = basis.shape[1]
    # on the CPU only: the host would wait for a GPU's answer
    if not torch.compiler.is_compiling() and basis.device.type == "cpu" and not basis.any():
        # W = 0 after a retraction: F (I + W) has the same value and first derivatives, and needs no solve
        return frame[:, :rank] + frame @ _skew(basis)[:, :rank]
    return frame @ _cayley(_skew(basis))[:, :rank]


def _skew(basis: Float[Tensor, "points rank"]) -> Float[Tensor, "points points"]:
    """Skew matrix W that rotates among the first `rank` directions, and between these and the others."""
    points, rank = basis.shape
    inner, outer = basis[:rank], basis[rank:]
    top = torch.cat([(inner - inner.mT) / 2, -outer.mT], dim=1)
    return torch.cat([top, torch.cat([outer, outer.new_zeros(points - rank, points - rank)], dim=1)])


def _cayley(w: Float[Tensor, "n n"]) -> Float[Tensor, "n n"]:
    """Cayley map (I − W/2)⁻¹ (I + W/2): orthogonal for a skew W, and I + W to first order."""
    identity = torch.eye(len(w), dtype=w.dtype, device=w.device)
    return torch.linalg.solve(identity - w / 2, identity + w / 2)


_START: dict[str, Callable[[int], Tensor]] = {
    "cumulative": lambda rank: torch.randn(rank) / rank,
    "sorted": lambda rank: torch.randn(rank),
    "shifted": lambda rank: torch.linspace(0, 1, rank),
}
_ORDER: dict[str, Callable[[Tensor], Tensor]] = {
    "cumulative": lambda root: root.square().cumsum(0),
    "sorted": lambda root: root.square().sort().values,
    "shifted": lambda root: root - root.min(),
}
