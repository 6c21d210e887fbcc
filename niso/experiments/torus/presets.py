"""Settings and presets of the torus experiment."""

from __future__ import annotations

from dataclasses import dataclass, replace

from niso.config import Optimisation
from niso.experiments.laplacian.config import COMMON, LaplacianConfig
from niso.methods import recipes
from niso.methods.config import FieldConfig


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
        self.check_rank()

    @property
    def full_rank(self) -> int:
        return self.size**2 if self.bandwidth is None else (2 * self.bandwidth - 1) ** 2


PAPER = TorusConfig(
    **COMMON,
    size=16,
    multiplicity=0.1,
    training=Optimisation(steps=100_000, batch_size=1),
)
"""The paper's text: 16×16, β = 0.1, batch 1, 100,000 steps, 86 images. The paper: 6 hours on an A6000.

`niso run torus --preset paper`: an hour on one idle core. Planes stay mixed: eigenspace_energy 0.74 to 0.78. Records:
results/torus/torus-paper-*.json."""

RELEASED = replace(
    PAPER,
    images=89,
    multiplicity=0.5,
    spectral_dropout=0.0,
    special=True,
    damping=1e-8,
    training=Optimisation(steps=1_000_000, batch_size=16),
)
"""The released code's settings: β = 0.5, batch 16, 1,000,000 steps, 89 images, SO(k), damped gradient, no spectral
dropout. Not run here."""

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
Records: results/torus/torus-quick-*.json. Of five more seeds (results/torus-steps) one leaves planes mixed: 0.969.
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
    eigenvalue_noise=0.6,
    eigenvalue_noise_decay=1e-4,
    spectrum="field",
    field=FieldConfig("periodic", frequencies=24, layers=0),
    training=replace(
        QUICK.training, steps=3_000, warmup_steps=300, learning_rate=5e-3, eigenfunction_learning_rate=0.02
    ),
)
"""8×8, frequencies below 4, k = 49, as a field that is told that the torus is periodic: each function is a sum of the
waves of the 24 lowest whole frequencies, which are the true ones, mixed at random at the start.

`niso run torus --preset field`: 50 to 100 seconds on a shared core. Expected: every plane, eigenspace_energy_worst
above 0.98. Records: results/torus/torus-field-niso-*.json. `--field.features fourier
--field.layers 1` tells it nothing: what lies between the points of the grid is then left open."""

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

`niso run torus --preset field-16`: ten minutes of one core, beside other runs. Expected: eigenspace_energy above
0.998, its worst above 0.9. Records: results/torus/torus-field-16-niso-*.json."""

PRESETS = {
    "quick": QUICK,
    "standard": STANDARD,
    "field": FIELD,
    "field-16": FIELD_16,
    "paper": PAPER,
    "released": RELEASED,
}
