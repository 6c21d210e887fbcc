"""How well the points and functions of surfaces are matched, by what was learned and by the rivals."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from niso import metrics
from niso.experiments.descriptors.model import PointModel
from niso.experiments.descriptors.surfaces import Example, Seen
from niso.functional_map import commuting_map
from niso.linalg import polar
from niso.results import Metric
from niso.spectrum import Spectrum

NEAR = 0.1
"""Share of √area within which a point is matched correctly."""
WEIGHTS = (0.01, 0.1, 1.0, 10.0)
"""Weights of commutation that the classical functional map is tried with."""


_DISTANCE = "distance of matched points from the true ones, along edges of the remeshed partner, in √area (mean)"
_ACCURACY = f"share of points that are matched within {NEAR} √area"
_WAYS = {
    "": "",
    "_classical": ", classical functional map",
    "_nearest": ", nearest descriptors",
    "_chance": ", random points",
}

METRICS: tuple[Metric, ...] = (
    Metric(
        "equivariance_error",
        "‖τa − b‖² / ‖b‖² of held-out surfaces and their partners, with their own τ (mean)",
        "lower",
    ),
    Metric("equivariance_error_remeshed", "the same, of partners with another connectivity", "lower"),
    Metric(
        "relative_map_error_remeshed",
        "‖τa − b′‖² / ‖b′‖² with the τ that was solved before the partner was remeshed",
        "lower",
    ),
    Metric("coefficient_error_remeshed", "‖b′ − b‖ / ‖b‖ of a partner and of the same one remeshed", "lower"),
    Metric("identity_distance", "‖τ − I‖² / k: 0 where descriptors leave τ nothing to do"),
    Metric(
        "function_map_error",
        "‖τf − g‖² / ‖g‖² of functions that τ was not solved from: coordinates on the surface and the same values "
        "on the remeshed partner",
        "lower",
    ),
    Metric("function_map_error_classical", "the same of the classical functional map", "lower"),
    Metric(
        "function_energy",
        "share of these functions, less their means, in the span of the learned eigenfunctions, by the learned mass",
        "higher",
    ),
    Metric("function_energy_classical", "the same of as many eigenfunctions of the Laplacian, by areas", "higher"),
    *(Metric(f"match_distance{name}", f"{_DISTANCE}{how}", "lower") for name, how in _WAYS.items()),
    *(Metric(f"match_accuracy{name}", f"{_ACCURACY}{how}", "higher") for name, how in _WAYS.items()),
    Metric("match_accuracy_val", "match_accuracy on validation surfaces", "higher"),
    Metric("match_accuracy_classical_val", "match_accuracy_classical on validation surfaces", "higher"),
    Metric(
        "classical_weight",
        "weight of commutation of the classical functional map: of "
        f"{', '.join(f'{weight:g}' for weight in WEIGHTS)} the best there",
    ),
    Metric("test_shapes", "held-out surfaces"),
)


class Matched(NamedTuple):
    """A held-out pair: what a figure draws.

    Attributes:
        functions: eigenfunctions on each mesh, in ascending eigenvalue.
    """

    example: Example
    functions: tuple[Float[np.ndarray, "vertices rank"], ...]


class Classical(NamedTuple):
    """The classical functional map from a surface to its remeshed partner, made orthogonal, as that of an isometry.

    Attributes:
        spectra: of the Laplacians of the two.
    """

    spectra: tuple[Spectrum, Spectrum]
    tau: Float[Tensor, "rank rank"]

    def matches(self) -> Int[np.ndarray, " vertices"]:
        """The vertex of the partner that each vertex is matched with."""
        here, there = (spectrum.eigenfunctions for spectrum in self.spectra)
        return _nearest(here @ self.tau.mT, there)


def classical_maps(
    pair: Example, surfaces: tuple[Seen, ...], rank: int, weights: Sequence[float]
) -> dict[float, Classical]:
    """Classical functional maps of a pair, solved from its descriptors with each of these weights of commutation."""
    first, last = pair.laplacian(0, rank), pair.laplacian(2, rank)
    a, b = (
        spectrum.project(surface.points.double().cpu())
        for spectrum, surface in ((first, surfaces[0]), (last, surfaces[2]))
    )
    maps = {weight: commuting_map(a, b, first.eigenvalues, last.eigenvalues, weight) for weight in weights}
    return {weight: Classical((first, last), polar(tau)) for weight, tau in maps.items()}


def classical_accuracies(pair: Example, surfaces: tuple[Seen, ...], rank: int) -> dict[float, float]:
    """`match_accuracy_classical` of a pair with each of `WEIGHTS`."""
    away, true = pair.distances(), pair.same_point()
    maps = classical_maps(pair, surfaces, rank, WEIGHTS)
    return {weight: float((away[each.matches(), true] <= NEAR).mean()) for weight, each in maps.items()}


def measure(
    model: PointModel, pair: Example, surfaces: tuple[Seen, ...], weight: float = WEIGHTS[0]
) -> tuple[dict[str, float], Matched]:
    """Metrics of one pair, and what a figure draws of it.

    Args:
        surfaces: its meshes as networks see them.
        weight: of commutation, of the classical functional map.
    """
    a, b, c = (model.basis(surface) for surface in surfaces)
    to_partner, to_other = model.solve(a, b), model.solve(a, c)
    rank = len(to_other)
    identity = torch.eye(rank).to(to_other)
    coordinates = torch.from_numpy(pair.meshes[0].vertices)
    assert pair.carry is not None
    carried = torch.from_numpy(pair.carry @ pair.meshes[0].vertices)
    classical = classical_maps(pair, surfaces, rank, [weight])[weight]
    learned = (a.spectrum, c.spectrum)
    values = {
        "equivariance_error": _error(to_partner, a.coefficients, b.coefficients),
        "equivariance_error_remeshed": _error(to_other, a.coefficients, c.coefficients),
        "relative_map_error_remeshed": _error(to_partner, a.coefficients, c.coefficients),
        "coefficient_error_remeshed": ((c.coefficients - b.coefficients).norm() / b.coefficients.norm()).item(),
        "identity_distance": ((to_other - identity).square().sum() / rank).item(),
    }
    for name, (spectra, tau) in {"": (learned, to_other), "_classical": classical}.items():
        here, there = (
            spectrum.project(f.to(spectrum.mass)) for spectrum, f in zip(spectra, (coordinates, carried), strict=True)
        )
        values[f"function_map_error{name}"] = _error(tau, here, there)
        values[f"function_energy{name}"] = function_energy(spectra[0], coordinates.to(spectra[0].mass))
    matches = {
        "": _nearest(learned[0].eigenfunctions @ to_other.mT, learned[1].eigenfunctions),
        "_classical": classical.matches(),
        "_nearest": _nearest(surfaces[0].points, surfaces[2].points),
        "_chance": np.random.default_rng(0).integers(len(carried), size=len(coordinates)),
    }
    away, true = pair.distances(), pair.same_point()
    found = {name: away[match, true] for name, match in matches.items()}
    values |= {f"match_distance{name}": float(part.mean()) for name, part in found.items()}
    values |= {f"match_accuracy{name}": float((part <= NEAR).mean()) for name, part in found.items()}
    ordered = {metric.key: values[metric.key] for metric in METRICS if metric.key in values}
    order = a.spectrum.eigenvalues.argsort()
    functions = tuple(part.spectrum.eigenfunctions[:, order].double().cpu().numpy() for part in (a, b, c))
    return ordered, Matched(pair, functions)


def _error(tau: Tensor, a: Tensor, b: Tensor) -> float:
    return metrics.equivariance_error(a, b, tau=tau).item()


def function_energy(spectrum: Spectrum, f: Float[Tensor, "points channels"]) -> float:
    """Share of functions, less their means, in the span of the eigenfunctions; both by the spectrum's mass."""
    mass = spectrum.mass[:, None]
    f = f - (mass * f).sum(0) / mass.sum()
    kept = spectrum.unproject(spectrum.project(f))
    return ((mass * kept.square()).sum() / (mass * f.square()).sum()).item()


def _nearest(
    points: Float[Tensor, "points dimensions"], others: Float[Tensor, "others dimensions"]
) -> Int[np.ndarray, " points"]:
    return torch.cdist(points.double(), others.double()).argmin(1).cpu().numpy()
