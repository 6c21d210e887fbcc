"""Settings and presets of the sphere experiment."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from niso.config import Optimisation
from niso.experiments.laplacian.config import COMMON, LaplacianConfig
from niso.geometry.domains import sphere
from niso.methods import recipes
from niso.methods.config import FieldConfig

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
        self.check_rank(f"spherical harmonics below bandwidth {self.band}")

    @property
    def band(self) -> int:
        """The bandwidth."""
        return self.size // 2 if self.bandwidth is None else self.bandwidth

    @property
    def full_rank(self) -> int:
        return self.band**2


PAPER = SphereConfig(**COMMON, size=16, multiplicity=0.1, training=Optimisation(steps=100_000, batch_size=1))
"""The paper's text: 16×16, k = 64, β = 0.1, batch 1, 100,000 steps, 86 images. How it rotates, it does not say.

`niso run sphere --preset paper`: half an hour on one core. Most of each eigenfunction is a harmonic; half of the blocks
or fewer are found. Records: results/sphere/sphere-paper-*.json."""

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
    eigenvalue_noise=0.2,
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

`niso run sphere --preset field-16`: a minute or two of an idle core, eight beside other work. Expected: energy
and agreement above 0.999 on every sampling. Records: results/sphere/sphere-field-16-*.json."""

PRESETS = {
    "quick": QUICK,
    "standard": STANDARD,
    "field": FIELD,
    "field-16": FIELD_16,
    "paper": PAPER,
}
