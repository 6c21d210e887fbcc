"""The sphere: spherical harmonics and Wigner-D blocks discovered from rotated photographs (paper §4.3, appendix B.2).

See `niso.experiments.laplacian.experiment` for the method. Photographs are functions on a Driscoll–Healy grid, moved by
random rotations.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from niso import metrics
from niso.config import Optimisation
from niso.experiments.laplacian.experiment import (
    COMMON,
    HeldOut,
    LaplacianConfig,
    LaplacianExperiment,
    LaplacianResult,
    Reading,
)
from niso.functional_map import isometric_map
from niso.geometry.domains import sphere
from niso.geometry.domains.domain import Sampling, quadrature_sphere
from niso.geometry.domains.sphere_samplings import fibonacci, random
from niso.geometry.mesh.surface import icosphere, vertex_areas
from niso.geometry.rotations import Rotations
from niso.linalg import polar
from niso.methods import recipes
from niso.methods.config import FieldConfig
from niso.random import EVALUATION_SEED
from niso.results import Curve, Metric
from niso.spectrum import Spectrum

SAMPLINGS = {
    "finer": "a grid four times as fine along each axis",
    "fibonacci": "four times as many Fibonacci points",
    "random": "sixteen times as many random points with Voronoi areas",
    "icosphere": "the vertices of an icosphere with their areas",
}
"""Samplings that a field is read on."""

Rotated = Literal["exact", "resampled"]
"""How functions are rotated: band-limited ones by Wigner-D matrices, or any by bilinear interpolation on the grid."""


@dataclass(frozen=True)
class SphereConfig(LaplacianConfig):
    """Settings of the sphere experiment."""

    bandwidth: int | None = None
    """Degrees ℓ below it are kept of the photographs (exact rotations) and searched for; size / 2 by default."""
    rotations: Rotated = "exact"
    """Photographs band-limited and rotated exactly, or as they are and rotated by bilinear interpolation."""

    def __post_init__(self) -> None:
        super().__post_init__()
        sphere.check_grid(self.size, self.size, self.band)
        if self.rank is not None and not 1 <= self.rank <= self.full_rank:
            raise ValueError(
                f"rank {self.rank} must lie between 1 and {self.full_rank}, the number of spherical harmonics below "
                f"bandwidth {self.band}"
            )

    @property
    def band(self) -> int:
        """The bandwidth."""
        return self.size // 2 if self.bandwidth is None else self.bandwidth

    @property
    def full_rank(self) -> int:
        return self.band**2


PAPER = SphereConfig(**COMMON, size=16, multiplicity=0.1, training=Optimisation(steps=100_000, batch_size=1))
"""The paper's text: 16×16, k = 64, β = 0.1, batch 1, 100,000 steps, 86 images. How it rotates, it does not say."""

QUICK = SphereConfig(
    **{**COMMON, "eigenvalues": "shifted"},
    eigenfunctions="rotation",
    norm="l2",
    multiplicity=0.01,
    multiplicity_decay=0.003,
    training=replace(
        recipes.DOMAIN,
        steps=8_000,
        warmup_steps=800,
        eigenvalue_learning_rate=0.1,
        mass_learning_rate=2e-3,
        eigenvalues_frozen=0.3,
    ),
)
"""8×8, k = 16, with the settings that docs/experiments/sphere.md explains ("What the sphere presets change").

`niso run sphere`: 5 ms a step on one free core of a 2-core AMD EPYC, about a minute in all. Expected: every
degree one block, eigenspace_energy and wigner_agreement above 0.99. Records: results/sphere/sphere-quick-*.json.
"""

STANDARD = replace(
    QUICK,
    size=16,
    multiplicity=0.02,
    training=replace(
        QUICK.training,
        steps=16_000,
        warmup_steps=1_000,
        learning_rate=0.01,
        mass_learning_rate=1e-3,
        eigenvalues_frozen=0.5,
    ),
)
"""16×16, k = 64: the size of the paper.

`niso run sphere --preset standard`: 14 ms a step on one free core of a 2-core AMD EPYC, about four minutes in all.
Expected: every degree one block, eigenspace_energy and mass_cosine above 0.99. Records:
results/sphere/sphere-standard-*.json.
"""


FIELD = replace(
    QUICK,
    spectrum="field",
    eigenfunctions="polar",
    field=FieldConfig("coordinates"),
    training=replace(
        QUICK.training,
        steps=6_000,
        warmup_steps=600,
        learning_rate=5e-3,
        eigenfunction_beta2=0.999,
        eigenfunction_eps=1e-8,
    ),
)
"""8×8, k = 16, eigenfunctions and mass density as fields over the unit vectors of the points.

`niso run sphere --preset field`. Records: results/sphere/sphere-field-niso-*.json. The weights of the quadrature are
given; the density relative to them is learned."""

FIELD_16 = replace(
    FIELD,
    size=16,
    norm="l1",
    equivariance=2.0,
    whitened=True,
    multiplicity=0.1,
    eigenvalue_noise=0.1,
    field=FieldConfig("coordinates", width=192, gain=2.0),
    training=replace(
        FIELD.training,
        steps=5_000,
        warmup_steps=500,
        learning_rate=1e-2,
        eigenvalue_learning_rate=0.05,
        eigenvalues_frozen=0.5,
    ),
)
"""The same on 16×16, k = 64, with the changes of "What the presets of fields change" (docs/experiments/torus.md), in
5,000 steps.

`niso run sphere --preset field-16`: a minute or two of an idle core, eight beside other work. Expected: every degree
one block, energy and agreement above 0.999 on every sampling. Records: results/sphere/sphere-field-16-*.json."""


class ByDegree(NamedTuple):
    """How well each degree ℓ was found, of those that any eigenfunction is matched to.

    Attributes:
        degrees, sizes: ℓ, and how many eigenfunctions are matched to it: 2ℓ + 1 where the rank suffices.
        spaces: the degree that each eigenfunction is matched to.
        energy: mean energy of these eigenfunctions in the true space of degree ℓ.
        angle: largest principal angle between their span and that space, in degrees of arc.
        agreement: ⟨τ, D⟩ / size, 1 where the block is the Wigner-D matrix.
        character_error: root mean square of trace τ_ℓ − χ_ℓ, which no choice of a basis changes.
        aligned: Q τ Qᵀ in the basis of the true harmonics, where Q is, for each degree, the polar factor of the inner
            products of true and learned functions: nothing of it is fitted to τ.
        wigner: D, of the rotations that were applied.
    """

    degrees: Int[Tensor, " degrees"]
    sizes: Int[Tensor, " degrees"]
    spaces: Int[Tensor, " rank"]
    energy: Float[Tensor, " degrees"]
    angle: Float[Tensor, " degrees"]
    agreement: Float[Tensor, " degrees"]
    character_error: Float[Tensor, " degrees"]
    aligned: Float[Tensor, "pairs true true"]
    wigner: Float[Tensor, "pairs true true"]

    @property
    def mean_agreement(self) -> float:
        """⟨τ, D⟩ / rank of the whole maps."""
        return ((self.agreement * self.sizes).sum() / self.sizes.sum()).item()


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
    presets: ClassVar[dict[str, Any]] = {
        "quick": QUICK,
        "standard": STANDARD,
        "field": FIELD,
        "field-16": FIELD_16,
        "paper": PAPER,
    }
    preset_notes: ClassVar[dict[str, str]] = {
        "quick": "8×8, degrees below 4: a minute or so on one core; all blocks found",
        "standard": "16×16, degrees below 8, the paper's size: four minutes; all blocks found",
        "field": "8×8 as functions of the place: half a minute; all blocks found, on any sampling",
        "field-16": "16×16 likewise: a minute or two; all blocks found, on any sampling",
        "paper": "the paper's text, 100,000 steps: hours on a CPU; not run here",
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
            "root mean square of trace τ_ℓ − χ_ℓ over pairs and degrees; χ_ℓ itself has 1",
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

    figures = "niso.experiments.laplacian.sphere_figures"

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
        by = self.by_degree(shared.held_out)
        values = {**shared.metrics, **self.by_degree_metrics(shared.held_out.spectrum, by)}
        changed = {"metrics": values, "curves": shared.curves | curves(by)}
        return SphereResult(**{**vars(shared), **changed}, by=by, weights=self.truth().weights)

    def by_degree_metrics(self, spectrum: Spectrum, by: ByDegree) -> dict[str, float]:
        """Metrics of the sphere alone."""
        from scipy.stats import spearmanr  # slow to import

        clusters = metrics.clusters(spectrum.eigenvalues)
        means = [spectrum.eigenvalues[by.spaces == ell].mean().item() for ell in by.degrees]
        blocks = [metrics.is_cluster(clusters, by.spaces == ell) for ell in by.degrees.tolist()]
        weights = self.truth().weights
        return {
            "eigenspace_energy_worst_degree": by.energy.min().item(),
            "blocks_found": sum(blocks) / len(blocks),
            "principal_angle": by.angle.mean().item(),
            "principal_angle_worst": by.angle.max().item(),
            "wigner_agreement": by.mean_agreement,
            "character_error": by.character_error.square().mean().sqrt().item(),
            "eigenvalue_order": float(spearmanr(by.degrees, means).statistic) if len(means) > 1 else 1.0,
            "mass_cosine": torch.cosine_similarity(spectrum.mass.double(), weights, dim=0).item(),
        }

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
            "wigner_agreement": self.by_degree(here, reading.functions).mean_agreement,
        }

    def by_degree(self, held_out: HeldOut, functions: Float[Tensor, "points true"] | None = None) -> ByDegree:
        """How well each degree was found.

        Args:
            functions: the true ones at the points of the spectrum, by default those of the grid.
        """
        spectrum, truth, spaces = held_out.spectrum, self.truth(), held_out.spaces
        functions = truth.functions if functions is None else functions
        degrees, sizes = spaces.unique(return_counts=True)
        inner = (functions * spectrum.mass.double()[:, None]).mT @ spectrum.eigenfunctions.double()
        align = torch.zeros_like(inner)
        energy, angle = [], []
        for ell in degrees:
            true, members = truth.spaces == ell, spaces == ell
            align[true[:, None] & members] = polar(inner[true][:, members]).flatten()
            energy.append(held_out.energy[members, ell].mean())
            parts = spectrum.eigenfunctions[:, members], functions[:, true]
            angle.append(metrics.principal_angles(spectrum.mass, *parts).max().rad2deg())
        aligned = align @ held_out.tau.double() @ align.mT
        wigner = sphere.wigner_d(held_out.motions.double(), self.config.band)
        same = (truth.spaces == degrees[:, None]).double()
        traces = aligned.diagonal(dim1=-2, dim2=-1) @ same.mT
        characters = sphere.characters(held_out.motions.double(), self.config.band)[:, degrees]
        return ByDegree(
            degrees,
            sizes,
            spaces,
            torch.stack(energy),
            torch.stack(angle),
            ((aligned * wigner).sum(-1) @ same.mT).mean(0) / sizes,
            (traces - characters).square().mean(0).sqrt(),
            aligned,
            wigner,
        )


def curves(by: ByDegree) -> dict[str, Curve]:
    """How well each degree was found."""
    labels = {
        "eigenspace_energy": (by.energy, "energy in the true space"),
        "principal_angle": (by.angle, "largest principal angle (degrees of arc)"),
        "wigner_agreement": (by.agreement, "agreement with Wigner-D"),
        "character_error": (by.character_error, "character error"),
    }
    return {
        name: {
            "x": by.degrees.double().tolist(),
            "y": values.tolist(),
            "count": by.sizes.tolist(),
            "x_label": "degree ℓ",
            "y_label": label,
        }
        for name, (values, label) in labels.items()
    }
