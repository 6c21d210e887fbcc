"""The sphere: spherical harmonics and Wigner-D blocks discovered from rotated photographs (paper §4.3, appendix B.2).

See `niso.experiments.laplacian.experiment` for the method. Photographs are functions on a Driscoll–Healy grid, moved by
random rotations.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor

from niso.experiments.laplacian.experiment import LaplacianExperiment, LaplacianResult, Reading
from niso.experiments.sphere.degrees import ByDegree, by_degree, curves, degree_metrics
from niso.experiments.sphere.presets import PRESETS, SphereConfig
from niso.functional_map import isometric_map
from niso.geometry.domains import sphere
from niso.geometry.domains.domain import Sampling, quadrature_sphere
from niso.geometry.domains.sphere_samplings import fibonacci, random
from niso.geometry.mesh.surface import icosphere, vertex_areas
from niso.geometry.rotations import Rotations
from niso.random import EVALUATION_SEED
from niso.results import Metric

SAMPLINGS = {
    "finer": "a grid four times as fine along each axis",
    "fibonacci": "four times as many Fibonacci points",
    "random": "sixteen times as many random points with Voronoi areas",
    "icosphere": "the vertices of an icosphere with their areas",
}
"""Samplings that a field is read on."""


@dataclass
class SphereResult(LaplacianResult):
    """What figures of the sphere are drawn from.

    Attributes:
        by: how well each degree was found.
        weights: of the quadrature.
    """

    by: ByDegree
    weights: Float[Tensor, " points"]


class Sphere(LaplacianExperiment):
    """The sphere experiment, see the module."""

    config: SphereConfig
    name = "sphere"
    summary = (
        "Pairs of photograph stacks, wrapped round a sphere, that differ by a random rotation are all that the model "
        "sees. From them it learns an inner product and an operator whose eigenspaces every rotation preserves. The "
        "true ones are known: the area of the sphere that each grid point stands for, and the spherical harmonics, "
        "2ℓ + 1 of every degree ℓ, among which a rotation acts by its Wigner-D matrix. How far they were found, "
        "without being told, is measured on photographs and rotations that were held out."
    )
    config_class = SphereConfig
    pictures_of_curves = LaplacianExperiment.pictures_of_curves | {"degrees"}
    presets = PRESETS
    preset_notes: ClassVar[dict[str, str]] = {
        "quick": "8×8, degrees below 4: a minute or so on one core; all blocks found",
        "standard": "16×16, degrees below 8, the paper's size: four minutes; all blocks found",
        "field": "8×8 as functions of the place: half a minute; all blocks found, on any sampling",
        "field-16": "16×16 likewise: a minute or two",
        "paper": "the paper's text, 100,000 steps: half an hour; eigenspace_energy 0.98, half of the blocks",
    }
    examples: ClassVar[dict[str, str]] = {
        "niso run sphere": "8×8, a minute or so, with a report",
        "niso run sphere --preset field-16": "16×16, read on other grids, points and a mesh",
    }
    main_settings: ClassVar[dict[str, str]] = {
        "data-dir": "a folder of photographs instead of those that come with scikit-image",
        "rotations": "exact, or resampled on the grid",
    }
    metrics: ClassVar[tuple[Metric, ...]] = (
        *LaplacianExperiment.metrics,
        Metric(
            "eigenspace_energy_worst_degree",
            "mean energy of the eigenfunctions matched to the worst degree, in it",
            "higher",
        ),
        Metric(
            "blocks_found",
            "share of the degrees ℓ whose 2ℓ + 1 eigenfunctions are one cluster of learned eigenvalues",
            "higher",
        ),
        Metric("principal_angle", "largest principal angle to the true space (mean over degrees ℓ)", "lower", "°"),
        Metric("principal_angle_worst", "the same, of the worst degree ℓ", "lower", "°"),
        Metric(
            "wigner_agreement",
            "cosine of τ_Ω, each degree aligned by its eigenfunctions alone, and the Wigner-D matrix",
            "higher",
        ),
        Metric(
            "character_error",
            "root mean square of trace τ_ℓ − χ_ℓ over pairs and degrees that the rank does not cut; χ_ℓ itself has 1",
            "lower",
        ),
        Metric(
            "mass_cosine", "cosine of the learned mass and the quadrature weights; a uniform mass has 0.90", "higher"
        ),
        *(
            Metric(f"{key}_{name}", f"{text} {where}", "higher")
            for name, where in SAMPLINGS.items()
            for key, text in (
                ("eigenspace_energy", "eigenspace_energy of a field, read on"),
                ("eigenspace_energy_worst", "the same of the worst eigenfunction, read on"),
                ("wigner_agreement", "wigner_agreement of a field, read on"),
            )
        ),
        Metric(
            "eigenvalue_order", "Spearman correlation of the degrees' mean learned eigenvalues and ℓ(ℓ + 1)", "higher"
        ),
    )
    targets: ClassVar[dict[str, dict[str, str]]] = {
        "quick": {"eigenspace_energy": "≥ 0.95", "mass_cosine": "≥ 0.98"},
        "standard": {"eigenspace_energy": "≥ 0.90", "mass_cosine": "≥ 0.98", "blocks_found": "≥ 1"},
    }

    figures = "niso.experiments.sphere.figures"

    def make_action(self) -> Rotations:
        return Rotations(self.config.size, self.config.band, self.config.rotations == "exact")

    @staticmethod
    def domain(height: int, width: int) -> Sampling:
        return quadrature_sphere(height, width)

    def truth(self) -> sphere.Harmonics:
        return sphere.harmonics(self.config.size, self.config.band)

    def truth_at(self, points: Float[Tensor, "points dimensions"]) -> Float[Tensor, "points true"]:
        return sphere.spherical_harmonics(points.double(), self.config.band)

    def samplings(self) -> dict[str, Sampling]:
        size = self.config.size
        mesh = icosphere(math.ceil(math.log(size**2 / 10, 4)))  # the coarsest with as many vertices as the grid
        areas = torch.from_numpy(vertex_areas(mesh)).double()
        return {
            "finer": self.domain(4 * size, 4 * size),
            "fibonacci": fibonacci(4 * size**2),
            "random": random(16 * size**2, EVALUATION_SEED),
            "icosphere": Sampling(torch.from_numpy(mesh.vertices).double(), areas / areas.mean()),
        }

    def laplacian(self) -> Float[Tensor, "points points"]:
        return sphere.laplacian(self.config.size, self.config.band)

    def observed(self, pool: Float[Tensor, "count points 3"]) -> Float[Tensor, "count points 3"]:
        return sphere.band_limited(pool, self.config.band) if self.config.rotations == "exact" else pool

    @torch.no_grad()
    def evaluate(self) -> SphereResult:
        shared = super().evaluate()
        truth = self.truth()
        by = by_degree(shared.held_out, truth, self.config.band)
        values = {**shared.metrics, **degree_metrics(shared.held_out.spectrum, by, truth)}
        changed = {"metrics": values, "curves": shared.curves | curves(by)}
        return SphereResult(**{**vars(shared), **changed}, by=by, weights=truth.weights)

    def measure_reading(self, reading: Reading) -> dict[str, float]:
        """Also the agreement of maps that are solved from the observations at these points, moved by Wigner-D."""
        held_out, band = reading.held_out, self.config.band
        truth = self.truth()
        project = (truth.functions * truth.weights[:, None]).mT
        coefficients = project @ held_out.x.double()
        moved = sphere.wigner_d(held_out.motions.double(), band) @ coefficients
        a, b = (reading.spectrum.project((reading.functions @ part).float()) for part in (coefficients, moved))
        model = self.model
        tau = isometric_map(a, b, reading.spectrum.eigenvalues, model.mask, model.special, model.damping)
        here = held_out._replace(spectrum=reading.spectrum, energy=reading.energy, tau=tau)
        return {
            **super().measure_reading(reading),
            "wigner_agreement": by_degree(here, truth, band, reading.functions).mean_agreement,
        }
