"""A spectrum learned as a field: mass density and eigenfunctions as networks over the coordinates of points."""

from __future__ import annotations

import math
from itertools import pairwise

import torch
from jaxtyping import Float
from torch import Tensor, nn

from niso.checks import check_count, check_tensor
from niso.linalg import full_precision, inverse_root, matmul
from niso.linalg.products import linear
from niso.spectrum.eigenvalues import Eigenvalues, initial_root
from niso.spectrum.features import Features, PointFeatures
from niso.spectrum.module import Role
from niso.spectrum.rotation import Eigenfunctions, random_frame, rotated
from niso.spectrum.spectrum import Spectrum
from niso.spectrum.trained import TrainedSpectrum

DEPENDENT = 1e-12
"""Ratio of the extreme eigenvalues of G below which those of a new field say nothing: U itself is in float32."""


class FieldSpectrum(TrainedSpectrum):
    """A spectrum whose eigenfunctions and mass are functions of a point, learned as networks over its coordinates.

    Trained on one sampling of a domain, it can be read on any other one. With networks U(x), which gives k numbers,
    and ρ(x), and a weight w for each point:

    - M = diag(w exp ρ(x)); ρ starts at 0, and w is what the point stands for: a quadrature weight or an area;
    - G = UᵀMU, summed over the points;
    - Φ(x) = U(x) G^(−1/2), so that ΦᵀMΦ = I; at the points themselves this is M^(−1/2) polar(M^(1/2) U);
      by "rotation" it is U(x) G^(−1/2) F cayley(W), so that U has to find the space of the eigenfunctions alone, and
      they turn in it as those of a `LearnedSpectrum` do. Call `retract_` after every optimiser step. U is not
      trained where it spans all that it can: with no layers and as many functions as features and a constant;
    - Λ as in `LearnedSpectrum`.

    Call it to get the `Spectrum` at the points that it was made with, and `at` for other points.

    Args:
        points: (N, dimensions) coordinates or any other descriptor of the points, best between −1 and 1. Where they
            are in float64, so are the spectrum and what is made with it.
        rank: number k of eigenfunctions, at most N.
        weights: (N,) w, positive; 1 by default.
        features: what the networks see of a point, see `PointFeatures`. Of "coordinates" alone, few functions are
            linearly independent to rounding: in the plane about 16.
        frequencies, scale: of Fourier features: how many, and the standard deviation of random ones, in periods from
            −1 to 1.
        width, layers: of the networks' hidden layers; SiLU follows each. With no layers, U and ρ are linear in the
            features.
        gain: factor on what the first layer of U starts with: with a larger one U varies more from point to point,
            so that its functions stay linearly independent, to rounding, at a higher rank.
        eigenvalues: parametrisation of Λ, see `LearnedSpectrum`.
        eigenfunctions: parametrisation of Φ.

    Raises:
        TypeError: points or weights that are no tensors, or sizes that are no numbers.
        ValueError: points, weights or sizes that are no such thing; a rank above the number of points, or above the
            number of functions that the networks' last layer spans, its inputs + 1; or U that starts out linearly
            dependent on the points, to rounding, as networks over few coordinates do at a high rank.

    Where U becomes linearly dependent on the points, a call raises `torch.linalg.LinAlgError`.
    """

    places: Tensor
    weights: Tensor

    def __init__(
        self,
        points: Float[Tensor, "points dimensions"],
        rank: int,
        weights: Float[Tensor, " points"] | None = None,
        features: Features = "fourier",
        frequencies: int = 48,
        scale: float = 1.5,
        width: int = 128,
        layers: int = 2,
        gain: float = 1.0,
        eigenvalues: Eigenvalues = "shifted",
        eigenfunctions: Eigenfunctions = "polar",
    ) -> None:
        super().__init__(eigenvalues, eigenfunctions)
        _check_points(points)
        places, weights = _checked(points, weights, values=not points.is_meta)
        if check_count("rank", rank) > len(places):
            raise ValueError(f"rank {rank} must lie between 1 and the number of points, {len(places)}")
        if not 0 < gain < math.inf:
            raise ValueError(f"gain must be positive, got {gain}")
        width = check_count("width", width)
        if layers < 0:
            raise ValueError(f"layers must not be negative, got {layers}")
        self.register_buffer("places", places.detach().clone())
        self.register_buffer("weights", weights.detach().clone())
        dimensions = places.shape[1]
        self.features = PointFeatures(features, dimensions, frequencies, scale)
        span = 1 + (width if layers else self.features.count)
        if rank > span:
            more = "widen them" if layers else "take more frequencies"
            raise ValueError(f"such networks span at most {span} functions, not {rank}: {more}")
        self.functions = _Network(self.features.count, [width] * layers, rank)
        self.density = _Network(self.features.count, [width] * layers, 1)
        with torch.no_grad():
            for parameter in self.functions.layers[0].parameters() if layers else ():
                parameter.mul_(gain)
        weight, _ = self.functions.layers[-1].parameters()
        nn.init.orthogonal_(weight)
        for parameter in self.density.layers[-1].parameters():
            nn.init.zeros_(parameter)
        self.eigenvalue_root = nn.Parameter(initial_root(eigenvalues, rank))
        if eigenfunctions == "rotation":
            self.register_buffer("frame", random_frame(rank))
            self.basis = nn.Parameter(torch.zeros(rank, rank))
            if not layers and rank == span:  # U spans all that it ever can, so that the angles alone determine Φ
                self.functions.requires_grad_(False)
        if not self.eigenvalue_root.is_meta:  # as under `torch.device("meta")`
            self.to(places.device)  # networks and frequencies, too: all of it is drawn on the CPU
        if self.eigenvalue_root.is_meta:  # it waits for a state: there is nothing to look at yet
            return
        with torch.no_grad():
            mass, u = (part.cpu().double() for part in self._evaluate(self.places, self.weights))
            values = torch.linalg.eigvalsh(u.mT @ (mass[:, None] * u))
        if not values[0] > DEPENDENT * values[-1]:
            raise ValueError(
                f"the {rank} functions of the field are linearly dependent on its {len(places)} points, to rounding: "
                "take a larger gain, Fourier features, more frequencies of them, a larger scale or a lower rank"
            )

    @property
    def points(self) -> int:
        return len(self.places)

    def forward(self) -> Spectrum:
        mass, functions = self._evaluate(self.places, self.weights)
        return self._spectrum(mass, _orthonormal(functions, mass, functions))

    def at(
        self,
        points: Float[Tensor, "others dimensions"],
        weights: Float[Tensor, " others"] | None = None,
        orthonormal: bool = True,
        checked: bool = False,
    ) -> Spectrum:
        """The spectrum at any points, differentiable in these, their weights and all parameters.

        Args:
            points: in the coordinates of the points that the field was made with.
            weights: what each stands for, in the same unit; by default each has the same share of the total weight of
                the field's own points.
            orthonormal: compute G at these points, which makes ΦᵀMΦ = I exact. Otherwise G stays that of the field's
                own points: Φ are the same functions everywhere, also where the points are too few or cover
                a part of the domain, and ΦᵀMΦ is I only as far as the weights integrate products of them.
            checked: points and weights are known to be finite, and weights positive. Otherwise each call looks at their
                values, and the host waits for a GPU to have computed them.

        Raises:
            TypeError: points or weights are not tensors.
            ValueError: points of another dimension, weights that are not positive, or, where G is computed at them,
                fewer points than eigenfunctions.
        """
        _check_points(points)
        if points.shape[1] != self.places.shape[1]:
            raise ValueError(f"points must have {self.places.shape[1]} coordinates, not {points.shape[1]}")
        if weights is None:
            share = float(self.weights.sum()) / len(points)
            weights = self.weights.new_full((len(points),), share, device=points.device)
        places, weights = _checked(points, weights, values=not checked)
        if orthonormal and len(places) < self.rank:
            raise ValueError(
                f"{self.rank} functions cannot be orthonormal on {len(places)} points: take orthonormal=False"
            )
        places, weights = places.to(self.places), weights.to(self.weights)
        mass, functions = self._evaluate(places, weights)
        own = (mass, functions) if orthonormal else self._evaluate(self.places, self.weights)
        return self._spectrum(mass, _orthonormal(functions, *own))

    def roles(self) -> dict[Role, list[nn.Parameter]]:
        # by "rotation" U finds a space at the rate of networks, and Φ turn in it at a rate of their own, as in a table
        functions = [self.basis] if self.eigenfunction_kind == "rotation" else list(self.functions.parameters())
        return {
            "eigenfunctions": functions,
            "eigenvalues": [self.eigenvalue_root],
            "mass": list(self.density.parameters()),
        }

    def _spectrum(self, mass: Float[Tensor, " points"], functions: Float[Tensor, "points rank"]) -> Spectrum:
        if self.eigenfunction_kind == "rotation":
            functions = matmul(functions, rotated(self.frame, self.basis, functions.dtype))
        return Spectrum(mass, functions, self.eigenvalues_alone().to(mass.dtype))

    def _evaluate(
        self, places: Float[Tensor, "points dimensions"], weights: Float[Tensor, " points"]
    ) -> tuple[Float[Tensor, " points"], Float[Tensor, "points rank"]]:
        """M and U at points."""
        seen = self.features(places)
        return _mass(weights, self.density(seen)[:, 0]), self.functions(seen)


class _Network(nn.Module):
    """[linear → SiLU] for each width, then linear, in float32 or wider whatever the parameters' precision is."""

    def __init__(self, inputs: int, widths: list[int], outputs: int) -> None:
        super().__init__()
        sizes = [inputs, *widths, outputs]
        self.layers = nn.ModuleList(_Linear(*pair) for pair in pairwise(sizes))

    def forward(self, x: Float[Tensor, "points inputs"]) -> Float[Tensor, "points outputs"]:
        for number, layer in enumerate(self.layers):
            x = layer(x if number == 0 else nn.functional.silu(x))
        return x


class _Linear(nn.Linear):
    def forward(self, x: Float[Tensor, "points inputs"]) -> Float[Tensor, "points outputs"]:
        return _linear(x, self.weight, self.bias)


_linear = full_precision(linear)


@full_precision
def _mass(weights: Float[Tensor, " points"], density: Float[Tensor, " points"]) -> Float[Tensor, " points"]:
    return weights * density.exp()


@full_precision
def _orthonormal(
    functions: Float[Tensor, "points rank"], mass: Float[Tensor, " others"], own: Float[Tensor, "others rank"]
) -> Float[Tensor, "points rank"]:
    """U G^(−1/2) with G = UᵀMU, where M and the U in G are `mass` and `own`: of the same points, or of others.

    In float64, as G has the squares of the singular values of M^(1/2) U: with it Φ is as exact as U itself.
    """
    wide = functions.dtype if functions.device.type == "mps" else torch.float64  # it has no float64
    u, m = own.to(wide), mass.to(wide)
    return (functions.to(wide) @ inverse_root(u.mT @ (m[:, None] * u))).to(functions.dtype)


def _check_points(points: Tensor) -> None:
    """Check points but for their values. Errors as of `_checked`."""
    check_tensor("points", points)
    if points.ndim != 2 or 0 in points.shape or not points.is_floating_point():
        kind = f"{tuple(points.shape)} of {points.dtype}"
        raise ValueError(f"points must be (points, dimensions) floating-point numbers, not {kind}")


def _checked(points: Tensor, weights: Tensor | None, values: bool = True) -> tuple[Tensor, Tensor]:
    """Points and weights, 1 where none are given; checked with their values or without.

    Raises:
        TypeError: they are not tensors.
        ValueError: they are not finite, do not fit each other, or a weight is not positive.
    """
    _check_points(points)
    if weights is not None:
        check_tensor("weights", weights, "floating-point numbers")
    else:
        weights = points.new_ones(len(points))
    if weights.shape != points.shape[:1]:
        raise ValueError(f"weights must be ({len(points)},), one for each point, not {tuple(weights.shape)}")
    if values and not torch.compiler.is_compiling():
        if not bool(points.isfinite().all()):
            raise ValueError("points must be finite")
        if not bool(((weights > 0) & weights.isfinite()).all()):
            raise ValueError("weights must be positive and finite")
    return points, weights
