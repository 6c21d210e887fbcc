"""A spectrum learned as a table: a mass and a value of every eigenfunction for each point (paper §4.1)."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn

from niso.checks import check_count, check_mass, check_number, check_tensors
from niso.linalg import full_precision, orthonormal, polar
from niso.linalg.span import DEPENDENT
from niso.spectrum.eigenvalues import Eigenvalues, initial_root
from niso.spectrum.module import Role
from niso.spectrum.rotation import Eigenfunctions, random_frame, rotated
from niso.spectrum.spectrum import Spectrum
from niso.spectrum.trained import TrainedSpectrum

_SIZE = 0.01
"""Root mean square of the entries of U before training."""
LEAST_MASS = 1e-8
"""What M is above at every point."""


class LearnedSpectrum(TrainedSpectrum):
    """A spectrum whose mass, eigenfunctions and eigenvalues are all learned; call it to get a `Spectrum`.

    Its parameters are `mass_root` m (points), `basis` (points, rank) and `eigenvalue_root` l (rank):

    - M = m² + 1e-8; m starts at 1.
    - Φ by `eigenfunctions`, M-orthonormal after any optimiser step:
      "polar" is M^(-1/2) polar(M^(1/2) U) for the basis U, which starts at N(0, 0.01²);
      "rotation" is M^(-1/2) F cayley(W) for an orthonormal frame F and a skew matrix W, whose entries are the basis;
      W starts at 0. Call `retract_` after every optimiser step: it moves the rotation into the frame. Each entry of
      the basis is then the angle between two eigenfunctions at every step, and Adam's moments are those of angles.
      The frame is a buffer, and a mean of frames is none: a moving average of the weights must copy it, as
      `AveragedModel` of `torch.optim.swa_utils` does unless `use_buffers=True`.
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
        eigenfunctions: parametrisation of Φ. "rotation" solves a (rank, rank) system in each call, except right after
            `retract_` on a CPU.

    Raises:
        TypeError: points or a rank that are not whole numbers.
        ValueError: a rank outside 1 … points, an unknown parametrisation, or a negative damping.

    Half-precision parameters still give a float32 spectrum.

    Source: paper §4.1 and §4.2; "polar", "cumulative" and "sorted" are the released code's (docs/notation.md);
    "rotation" is the dynamic trivialisation of Lezcano-Casado (2019) with the Cayley map.
    """

    def __init__(
        self,
        points: int,
        rank: int | None = None,
        eigenvalues: Eigenvalues = "cumulative",
        damping: float = 0.0,
        eigenfunctions: Eigenfunctions = "polar",
    ) -> None:
        super().__init__(eigenvalues, eigenfunctions)
        points = check_count("points", points)
        rank = points if rank is None else check_count("rank", rank)
        if not 1 <= rank <= points:
            raise ValueError(f"rank {rank} must lie between 1 and the number of points, {points}")
        check_number("damping", damping)
        self.damping = damping
        self.mass_root = nn.Parameter(torch.ones(points))
        if eigenfunctions == "rotation":
            self.register_buffer("frame", random_frame(points))
            self.basis = nn.Parameter(torch.zeros(points, rank))
        else:
            self.basis = nn.Parameter(_SIZE * torch.randn(points, rank))
        self.eigenvalue_root = nn.Parameter(initial_root(eigenvalues, rank))

    @property
    def points(self) -> int:
        return self.basis.shape[0]

    def forward(self) -> Spectrum:
        mass, root = _mass(self.mass_root)
        if self.eigenfunction_kind == "rotation":
            orthonormal = rotated(self.frame, self.basis)
        else:
            orthonormal = polar(root * self.basis, damping=self.damping)
        return Spectrum(mass, orthonormal / root, self.eigenvalues_alone())

    @torch.no_grad()
    def start_mass_at_(self, mass: Float[Tensor, " points"]) -> bool:
        """Start M at this mass, before training; Φ spans what it did. Masses below 2e-8 start there, above M's least.

        Returns:
            True: it starts there.

        Raises:
            TypeError: not a tensor of floating-point numbers.
            ValueError: another number of points, or a mass that is not positive and finite.
        """
        check_tensors(sizes={"points": self.points}, mass=(mass, "points"))
        check_mass(mass)
        functions = self.forward().eigenfunctions
        self.mass_root.copy_((mass - LEAST_MASS).clamp_min(LEAST_MASS).sqrt())
        if self.eigenfunction_kind == "rotation":  # with "polar" the next call does so
            self.start_eigenfunctions_at_(functions)
        return True

    @torch.no_grad()
    def start_eigenfunctions_at_(self, functions: Float[Tensor, "points rank"]) -> None:
        """Start Φ at the M-orthonormal functions nearest to these, which they span, before training.

        Raises:
            TypeError: not a tensor of floating-point numbers.
            ValueError: another number of points or functions, or functions that are not finite or, to rounding,
                linearly dependent.
        """
        check_tensors(sizes={"points": self.points, "rank": self.rank}, functions=(functions, "points rank"))
        root = _mass(self.mass_root)[1]
        least = max(DEPENDENT, 10 * torch.finfo(functions.dtype).eps)
        orthonormal(root.double() * functions.to(root.device), least)  # refuses those that are dependent
        start = polar(root * functions.to(root))
        if self.eigenfunction_kind == "rotation":
            self.frame.copy_(torch.linalg.qr(torch.cat([start, self.frame.to(root)], dim=1))[0])
            self.frame[:, : self.rank] = start  # which QR may have reversed
            self.basis.zero_()
        else:  # as large as noise, so that a step of the optimiser turns it as far
            self.basis.copy_(_SIZE * self.points**0.5 * start / root)

    def roles(self) -> dict[Role, list[nn.Parameter]]:
        return {"eigenfunctions": [self.basis], "eigenvalues": [self.eigenvalue_root], "mass": [self.mass_root]}


@full_precision
def _mass(mass_root: Float[Tensor, " points"]) -> tuple[Float[Tensor, " points"], Float[Tensor, "points 1"]]:
    mass = mass_root.square() + LEAST_MASS
    return mass, mass.sqrt()[:, None]
