"""The torus: Fourier eigenspaces discovered from photographs under circular shifts (paper §4.3, appendix B.2).

Encoder and decoder are the identity. An observation is a stack of small photograph crops, its channels; the other
one of a pair is the same stack, shifted.
"""

from __future__ import annotations

from typing import ClassVar

from jaxtyping import Float
from torch import Tensor

from niso.experiments.laplacian.experiment import LaplacianExperiment
from niso.experiments.torus.presets import PRESETS, TorusConfig
from niso.geometry.domains import domain, torus
from niso.geometry.domains.domain import Sampling
from niso.geometry.shifts import Shifts
from niso.results import Metric


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
    presets = PRESETS
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
        "paper": "the paper's text, 100,000 steps: an hour or two; eigenspace_energy 0.76",
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
    figures = "niso.experiments.torus.figures"

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
