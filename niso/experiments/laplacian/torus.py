"""The torus: Fourier eigenspaces discovered from photographs under circular shifts (paper §4.3, appendix B.2).

Encoder and decoder are the identity. An observation is a stack of small photograph crops, its channels; the other
one of a pair is the same stack, shifted.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

from jaxtyping import Float
from torch import Tensor

from niso.config import Optimisation
from niso.experiments.laplacian.experiment import COMMON, LaplacianConfig, LaplacianExperiment
from niso.geometry.domains import domain, torus
from niso.geometry.domains.domain import Sampling
from niso.geometry.shifts import Shifts
from niso.methods import recipes
from niso.methods.config import FieldConfig
from niso.results import Metric


@dataclass(frozen=True)
class TorusConfig(LaplacianConfig):
    """Settings of the torus experiment."""

    bandwidth: int | None = None
    """Frequencies below it, along both axes, are kept of the photographs and searched for; all by default. A field can
    be read on a finer grid only with it, up to size / 2: beyond, different waves agree on the grid."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.bandwidth is not None and not 1 <= self.bandwidth <= self.size // 2:
            raise ValueError(f"bandwidth must lie between 1 and half the size, {self.size // 2}, got {self.bandwidth}")
        if self.rank is not None and not 1 <= self.rank <= self.full_rank:
            raise ValueError(f"rank {self.rank} must lie between 1 and the number of functions, {self.full_rank}")

    @property
    def full_rank(self) -> int:
        return self.size**2 if self.bandwidth is None else (2 * self.bandwidth - 1) ** 2


PAPER = TorusConfig(
    **COMMON,
    size=16,
    multiplicity=0.1,
    training=Optimisation(steps=100_000, batch_size=1),
)
"""The paper's text: 16×16, β = 0.1, batch 1, 100,000 steps, 86 images. The paper: 6 hours on an A6000. Not run here."""

RELEASED = replace(
    PAPER,
    images=89,
    multiplicity=0.5,
    special=True,
    damping=1e-8,
    training=Optimisation(steps=1_000_000, batch_size=16),
)
"""The released code's settings: β = 0.5, batch 16, 1,000,000 steps, 89 images, SO(k), damped gradient. Not run here."""

QUICK = TorusConfig(
    **{**COMMON, "eigenvalues": "shifted"},
    eigenfunctions="rotation",
    norm="l2",
    multiplicity=0.04,
    multiplicity_decay=0.003,
    training=replace(
        recipes.DOMAIN,
        steps=5_000,
        warmup_steps=500,
        learning_rate=0.03,
        mass_learning_rate=1e-3,
        eigenvalues_frozen=0.1,
    ),
)
"""8×8, k = 64, with the settings that docs/experiments/torus.md explains ("What the torus presets change").

`niso run torus`: 75 seconds on one idle core of an AMD EPYC (Zen 3). Mean of seeds 0–4: eigenspace_energy 0.998
(worst 0.992), map_block_energy 0.995 (worst 0.986), equivariance_error 0.4 % (worst 0.6 %).
Records: results/torus/torus-quick-*.json. Of three more seeds (results/torus-steps) one leaves planes mixed: 0.969.
"""

STANDARD = replace(
    QUICK,
    size=16,
    multiplicity=0.08,
    multiplicity_decay=0.005,
    training=replace(
        QUICK.training, steps=13_000, warmup_steps=1_400, learning_rate=0.01, eigenvalue_learning_rate=0.5
    ),
)
"""16×16, k = 256: the size of the paper.

`niso run torus --preset standard`: four minutes on one core of an AMD EPYC (Zen 5).
Records: results/torus/torus-standard-*.json.
"""


FIELD = replace(
    QUICK,
    bandwidth=4,
    norm="l1",
    equivariance=2.0,
    multiplicity=0.3,
    eigenvalue_noise=0.3,
    spectrum="field",
    field=FieldConfig("periodic", frequencies=24, layers=0),
    training=replace(
        QUICK.training, steps=3_000, warmup_steps=300, learning_rate=5e-3, eigenfunction_learning_rate=0.02
    ),
)
"""8×8, frequencies below 4, k = 49, as a field that is told that the torus is periodic: each function is a sum of the
waves of the 24 lowest whole frequencies, which are the true ones, mixed at random at the start.

`niso run torus --preset field`: 50 to 100 seconds on a shared core. Expected: every plane, eigenspace_energy_worst
above 0.99. Records: results/torus/torus-field-niso-*.json. `--field.features fourier --field.layers 1` tells it
nothing: what lies between the points of the grid is then left open."""

FIELD_16 = replace(
    FIELD,
    size=16,
    bandwidth=8,
    whitened=True,
    multiplicity=0.6,
    field=FieldConfig("periodic", frequencies=112, layers=0),
    training=replace(
        FIELD.training,
        steps=10_000,
        warmup_steps=700,
        eigenfunction_learning_rate=0.01,
        eigenvalue_learning_rate=0.5,
    ),
)
"""The same on 16×16, k = 225, with an equivariance loss in which all eigenfunctions count alike.

`niso run torus --preset field-16`: a quarter of an hour of one core, beside other runs. Expected: eigenspace_energy
above 0.995, its worst above 0.75. Records: results/torus/torus-field-16-niso-*.json."""


class Torus(LaplacianExperiment):
    """The torus experiment, see the module."""

    config: TorusConfig
    name = "torus"
    summary = (
        "Pairs of photograph stacks that differ by a random circular shift are all that the model sees. From them it "
        "learns an operator whose eigenspaces every shift preserves. The true ones are known: the planes spanned by "
        "the sine and cosine of one spatial frequency. How far they were found, without being told, is measured on "
        "photographs and shifts that were held out."
    )
    config_class = TorusConfig
    presets: ClassVar[dict[str, Any]] = {
        "quick": QUICK,
        "standard": STANDARD,
        "field": FIELD,
        "field-16": FIELD_16,
        "paper": PAPER,
        "released": RELEASED,
    }
    targets: ClassVar[dict[str, dict[str, str]]] = {
        "quick": {
            "eigenspace_energy": "≥ 0.95",
            "map_block_energy": "≥ 0.95",
            "equivariance_error": "≤ 0.01",
        },
        "standard": {"eigenspace_energy": "≥ 0.95", "map_block_energy": "≥ 0.95"},
    }

    preset_notes: ClassVar[dict[str, str]] = {
        "quick": "8×8, k = 64: a minute or two on one core; eigenspace_energy 0.99",
        "standard": "16×16, k = 256, the paper's size: four minutes or so; eigenspace_energy 0.99",
        "field": "8×8 as functions of the place: a minute or two; every plane found",
        "field-16": "16×16 likewise: a quarter of an hour; nearly every plane, also between grid points",
        "paper": "the paper's text, 100,000 steps: hours to days on a CPU; not run here",
        "released": "the released settings, 1,000,000 steps: days on a CPU; not run here",
    }
    examples: ClassVar[dict[str, str]] = {
        "niso run torus": "8×8, a minute or so, with a report",
        "niso run torus --preset standard --seeds 3 --parallel 2": "three runs with mean and standard error",
    }
    main_settings: ClassVar[dict[str, str]] = {
        "data-dir": "a folder of photographs instead of those that come with scikit-image",
        "size": "side n of the grid",
    }
    metrics: ClassVar[tuple[Metric, ...]] = (
        *LaplacianExperiment.metrics,
        Metric("eigenspace_energy_finer", "eigenspace_energy of a field, read on a grid twice as fine", "higher"),
        Metric("eigenspace_energy_worst_finer", "the same, of the worst eigenfunction", "higher"),
    )
    figures = "niso.experiments.laplacian.torus_figures"

    def make_action(self) -> Shifts:
        return Shifts(self.config.size)

    @staticmethod
    def domain(height: int, width: int) -> Sampling:
        return domain.torus(height, width)

    def truth(self) -> torus.Harmonics:
        return torus.harmonics(self.config.size, self.config.bandwidth)

    def truth_at(self, points: Float[Tensor, "points dimensions"]) -> Float[Tensor, "points true"]:
        return torus.waves(points, self.config.size, self.config.bandwidth or self.config.size // 2)

    def samplings(self) -> dict[str, Sampling]:
        config = self.config
        return {} if config.bandwidth is None else {"finer": self.domain(2 * config.size, 2 * config.size)}

    def observed(self, pool: Float[Tensor, "count points 3"]) -> Float[Tensor, "count points 3"]:
        return pool if self.config.bandwidth is None else torus.band_limited(pool, self.config.bandwidth)

    def laplacian(self) -> Float[Tensor, "points points"]:
        truth = self.truth()
        return (
            truth.functions * truth.eigenvalues @ truth.functions.mT
            if self.config.bandwidth
            else torus.laplacian(self.config.size)
        )
