"""The torus: Fourier eigenspaces discovered from photographs under circular shifts (paper §4.3, appendix B.2).

Encoder and decoder are the identity. An observation is a stack of small photograph crops, its channels; the other
one of a pair is the same stack, shifted.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, NamedTuple

import torch
import tyro
from jaxtyping import Float, Int
from torch import Tensor, nn

from niso import metrics
from niso.config import Optimisation, require
from niso.data.photographs import crops, photographs
from niso.experiments.experiment import Experiment, Phase
from niso.geometry import torus
from niso.losses import Norm
from niso.model import IsometryObjective, NeuralIsometry
from niso.random import local_part
from niso.spectrum import Eigenfunctions, Eigenvalues, LearnedSpectrum, Spectrum

if TYPE_CHECKING:
    from niso.report import Picture


@dataclass(frozen=True)
class TorusConfig:
    """Settings of the torus experiment."""

    size: int = 8
    """Side n of the grid; the latent domain has n² points."""
    rank: int | None = None
    """Number of eigenfunctions; all n² by default."""
    images: int = 86
    """Crops stacked into one observation: 3 channels each."""
    pool: int = 20_000
    """Crops drawn from the training photographs once; observations are stacked from them."""
    eigenvalues: Eigenvalues = "sorted"
    """Parametrisation of the eigenvalues, see `niso.LearnedSpectrum`."""
    eigenfunctions: Eigenfunctions = "polar"
    """Parametrisation of the eigenfunctions, see `niso.LearnedSpectrum`."""
    norm: Norm = "l1"
    """Norm of the losses: mean absolute error or mean square."""
    equivariance: float = 0.0
    """Weight α of the equivariance loss; with identity networks it equals the reconstruction loss."""
    multiplicity: float = 0.1
    """Weight β of the multiplicity loss."""
    multiplicity_decay: float = 1.0
    """Factor that β reaches at the end, geometrically over the last 30 % of the steps."""
    spectral_dropout: float = 0.5
    """Probability of spectral dropout."""
    special: bool = False
    """Maps of determinant +1 only."""
    damping: float = 0.0
    """Damping of the polar gradient; 0 is exact."""
    training: Annotated[Optimisation, tyro.conf.arg(name="")] = field(default_factory=Optimisation)
    """Optimisation."""
    evaluation_pairs: int = 64
    """Held-out observations, each under one random shift, that the figures are means over."""

    __pydantic_config__ = {"extra": "forbid"}  # noqa: RUF012  # pydantic reads it as it is

    def __post_init__(self) -> None:
        require(self, "size", "images", "pool", "evaluation_pairs", positive=True)
        require(self, "equivariance", "multiplicity", "multiplicity_decay", "damping")
        require(self, "spectral_dropout", most=1.0)
        if self.rank is not None and not 1 <= self.rank <= self.size**2:
            raise ValueError(f"rank {self.rank} must lie between 1 and the number of points, {self.size**2}")


PAPER = TorusConfig(
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
    eigenvalues="shifted",
    eigenfunctions="rotation",
    norm="l2",
    multiplicity=0.04,
    multiplicity_decay=0.003,
    training=Optimisation(
        steps=16_000,
        batch_size=1,
        learning_rate=0.02,
        final_learning_rate=0.0,
        warmup_steps=1_600,
        weight_decay=0.0,
        eigenfunction_beta2=0.99,
        eigenfunction_eps=1e-12,
        eigenvalue_learning_rate=0.3,
        mass_learning_rate=1e-3,
        eigenvalues_frozen=0.1,
    ),
)
"""8×8, k = 64, with the settings that docs/notation.md explains ("What the torus presets change").

`niso run torus`: one core of a 2-core AMD EPYC (Zen 5), about 70 s on a busy machine. Mean of seeds 0–4:
eigenspace_energy 0.995 (worst 0.987), map_block_energy 0.986 (worst 0.969), equivariance_error 0.7 % (worst 1.8 %).
Records: results/torus/torus-quick-*.json.
"""

STANDARD = replace(
    QUICK,
    size=16,
    multiplicity=0.08,
    multiplicity_decay=0.005,
    training=replace(
        QUICK.training, steps=20_000, warmup_steps=2_000, learning_rate=0.01, eigenvalue_learning_rate=0.5
    ),
)
"""16×16, k = 256: the size of the paper.

`niso run torus --preset standard`: one core of a 2-core AMD EPYC (Zen 5), 11 to 19 minutes beside other runs.
Records, each seed's figures in them: results/torus/torus-standard-*.json.
"""


class Evaluation(NamedTuple):
    """Everything that figures and pictures are made of, on the CPU."""

    spectrum: Spectrum
    energy: Float[Tensor, "rank spaces"]
    spaces: Int[Tensor, " rank"]
    tau: Float[Tensor, "pairs rank rank"]
    x: Float[Tensor, "pairs points channels"]
    tx: Float[Tensor, "pairs points channels"]


class Torus(Experiment):
    """The torus experiment, see the module."""

    name = "torus"
    summary = (
        "Pairs of photograph stacks that differ by a random circular shift are all that the model sees. From them it "
        "learns an operator whose eigenspaces every shift preserves. The true ones are known: the planes spanned by "
        "the sine and cosine of one spatial frequency. How far they were found, without being told, is measured on "
        "photographs and shifts that were held out."
    )
    config_class = TorusConfig
    presets: ClassVar[dict[str, Any]] = {"quick": QUICK, "standard": STANDARD, "paper": PAPER, "released": RELEASED}
    metric_descriptions: ClassVar[dict[str, str]] = {
        "eigenspace_energy": "energy of a learned eigenfunction in its best true frequency plane (mean)",
        "eigenspace_energy_worst": "the same, of the worst eigenfunction",
        "map_block_energy": "share of τ_Ω² between eigenfunctions matched to the same plane",
        "map_block_energy_chance": "the same for a random partition of the same sizes",
        "equivariance_error": "‖τa − b‖² / ‖b‖² on held-out pairs (mean)",
        "equivariance_error_centred": "the same, relative to what is left of b without each function's mean",
        "frequency_rank_correlation": "Spearman correlation of learned eigenvalues and true frequency energies",
        "operator_correlation": "Pearson correlation of the entries of Ω and of the toric Laplacian",
        "steps": "optimiser steps",
        "seconds": "seconds of training",
    }
    targets: ClassVar[dict[str, dict[str, str]]] = {
        "quick": {
            "eigenspace_energy": "≥ 0.95",
            "map_block_energy": "≥ 0.95",
            "equivariance_error": "≤ 0.01",
        },
        "standard": {"eigenspace_energy": "≥ 0.95", "map_block_energy": "≥ 0.95"},
    }

    def __init__(
        self, config: TorusConfig, method: str, seed: int, data_dir: Path | None, device: torch.device
    ) -> None:
        super().__init__(config, method, seed, data_dir, device)
        identity = nn.Identity()
        spectrum = LearnedSpectrum(
            config.size**2, config.rank, config.eigenvalues, config.damping, config.eigenfunctions
        )
        self.model = NeuralIsometry(
            identity,
            identity,
            spectrum,
            special=config.special,
            damping=config.damping,
            spectral_dropout=config.spectral_dropout,
            norm=config.norm,
        ).to(device)
        train_images, test_images = photographs(data_dir)
        self.train_crops = crops(train_images, config.pool, config.size, seed).to(device)
        self.test_crops = crops(test_images, 2_000, config.size, EVALUATION_SEED).to(device)

    def phases(self) -> Iterator[Phase]:
        config = self.config
        objective = IsometryObjective(self.model, config.equivariance, config.multiplicity, config.multiplicity_decay)
        yield Phase("pretrain", objective, self.sample, config.training)

    def sample(self, step: int) -> tuple[Tensor, Tensor]:
        """Pairs (ψ, Tψ) of training crops: this process's part of the batch."""
        return self._pairs(self.train_crops, self.config.training.batch_size, distributed=True)

    def _pairs(self, pool: Tensor, count: int, distributed: bool = False) -> tuple[Tensor, Tensor]:
        choice = torch.randint(len(pool), (count, self.config.images), device=self.device)
        offsets = torch.randint(self.config.size, (count, 2), device=self.device)
        if distributed:
            choice, offsets = local_part(choice), local_part(offsets)
        x = pool[choice].transpose(1, 2).flatten(2)
        return x, torus.shift(x, offsets, self.config.size)

    @torch.no_grad()
    def held_out(self) -> Evaluation:
        """Held-out pairs, the maps solved for them, and the true plane that each eigenfunction is matched to."""
        torch.manual_seed(EVALUATION_SEED)
        x, tx = self._pairs(self.test_crops, self.config.evaluation_pairs)
        spectrum = Spectrum(*(part.cpu() for part in self.model.spectrum()))
        truth = torus.harmonics(self.config.size)
        energy = metrics.eigenspace_energy(spectrum.mass, spectrum.eigenfunctions, truth.functions, truth.spaces)
        tau = self.model.map_between(x, tx).cpu()
        return Evaluation(spectrum, energy, energy.argmax(-1), tau, x.cpu(), tx.cpu())

    @torch.no_grad()
    def evaluate(self) -> dict[str, float]:
        from scipy.stats import spearmanr

        held_out = self.held_out()
        spectrum = held_out.spectrum
        a, b = spectrum.project(held_out.x), spectrum.project(held_out.tx)
        weight = spectrum.mass / spectrum.mass.sum()
        mean = (weight[:, None] * held_out.tx).sum(1, keepdim=True)
        common = spectrum.project(torch.ones_like(held_out.tx[:1, :, :1])) * mean
        share, chance = metrics.block_energy(held_out.tau, held_out.spaces)
        best = held_out.energy.amax(-1)
        operator, laplacian = spectrum.operator().double(), torus.laplacian(self.config.size)
        return {
            "eigenspace_energy": best.mean().item(),
            "eigenspace_energy_worst": best.min().item(),
            "map_block_energy": share.mean().item(),
            "map_block_energy_chance": chance.mean().item(),
            "equivariance_error": metrics.equivariance_error(held_out.tau, a, b).mean().item(),
            "equivariance_error_centred": metrics.equivariance_error(held_out.tau, a, b, common).mean().item(),
            "frequency_rank_correlation": float(
                spearmanr(spectrum.eigenvalues, self.frequency_energies(held_out.energy)).statistic
            ),
            "operator_correlation": torch.corrcoef(torch.stack([operator.flatten(), laplacian.flatten()]))[0, 1].item(),
        }

    def frequency_energies(self, energy: Float[Tensor, "rank spaces"]) -> Float[Tensor, " rank"]:
        """Mean Laplacian eigenvalue of every learned eigenfunction."""
        truth = torus.harmonics(self.config.size)
        planes = torch.zeros(energy.shape[1], dtype=torch.float64)
        planes[truth.spaces] = truth.eigenvalues
        return energy @ planes

    def pictures(self) -> list[Picture]:
        from niso.experiments.torus_pictures import pictures

        return pictures(self)


EVALUATION_SEED = 20_241_210
"""Of the held-out crops and shifts, the same for every run (the paper's conference date)."""
