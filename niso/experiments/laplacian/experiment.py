"""Discovering a Laplacian's eigenspaces from pairs of photographs: what torus and sphere share (paper §4.3).

Encoder and decoder are the identity. An observation is a stack of small photograph crops, its channels; the other
one of a pair is the same stack, moved by a random isometry of the domain.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, ClassVar, NamedTuple, Protocol, runtime_checkable

import torch
import tyro
from jaxtyping import Float, Int, Shaped
from torch import Tensor, nn

from niso import metrics
from niso.config import Optimisation, Strict, require
from niso.data.photographs import crops, photographs
from niso.experiments.experiment import Experiment, Phase
from niso.losses import Norm
from niso.model import IsometryObjective, NeuralIsometry
from niso.results import Metric
from niso.random import local_part
from niso.spectrum import Eigenfunctions, Eigenvalues, LearnedSpectrum, Spectrum

EVALUATION_SEED = 20_241_210
"""Of the held-out crops and motions, the same for every run (the paper's conference date)."""


TRAINING = Optimisation(
    batch_size=1,
    learning_rate=0.02,
    final_learning_rate=0.0,
    weight_decay=0.0,
    eigenfunction_beta2=0.99,
    eigenfunction_eps=1e-12,
    eigenvalue_learning_rate=0.3,
)
"""What the presets that are not published ones share, see docs/notation.md ("What the torus presets change")."""


@dataclass(frozen=True)
class LaplacianConfig(Strict):
    """Settings that the torus and the sphere experiment share."""

    size: int = 8
    """Side n of the grid; the latent domain has n² points."""
    rank: int | None = None
    """Number of eigenfunctions; as many as the domain allows by default."""
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
    """Held-out observations, each under one random motion, that the figures are means over."""

    def __post_init__(self) -> None:
        require(self, "size", "images", "pool", "evaluation_pairs", positive=True)
        require(self, "equivariance", "multiplicity", "multiplicity_decay", "damping")
        require(self, "spectral_dropout", most=1.0)

    @property
    def full_rank(self) -> int:
        """Dimension of the functions on the domain: the largest rank, and the default."""
        return self.size**2


@runtime_checkable  # for the tests' check of every call
class Truth(Protocol):
    """True eigenfunctions of the domain, see `Harmonics` in `geometry.domains.torus` and `geometry.domains.sphere`."""

    @property
    def functions(self) -> Float[Tensor, "points true"]: ...
    @property
    def spaces(self) -> Int[Tensor, " true"]: ...
    @property
    def eigenvalues(self) -> Float[Tensor, " true"]: ...


class Evaluation(NamedTuple):
    """Everything that figures and pictures are made of, on the CPU."""

    spectrum: Spectrum
    energy: Float[Tensor, "rank spaces"]
    spaces: Int[Tensor, " rank"]
    tau: Float[Tensor, "pairs rank rank"]
    x: Float[Tensor, "pairs points channels"]
    tx: Float[Tensor, "pairs points channels"]
    motions: Shaped[Tensor, "pairs ..."]


class LaplacianExperiment(Experiment):
    """What the torus and the sphere experiment share, see the module."""

    config: LaplacianConfig
    metrics: ClassVar[tuple[Metric, ...]] = (
        Metric("eigenspace_energy", "energy of a learned eigenfunction in its best true eigenspace (mean)", "higher"),
        Metric("eigenspace_energy_worst", "the same, of the worst eigenfunction", "higher"),
        Metric("map_block_energy", "share of τ_Ω² between eigenfunctions matched to the same true eigenspace", "higher"),
        Metric("map_block_energy_chance", "the same for a random partition of the same sizes"),
        Metric("equivariance_error", "‖τa − b‖² / ‖b‖² on held-out pairs (mean)", "lower"),
        Metric("equivariance_error_centred", "the same, relative to what is left of b without each function's mean", "lower"),
        Metric("frequency_rank_correlation", "Spearman correlation of learned eigenvalues and true frequency energies", "higher"),
        Metric("operator_correlation", "Pearson correlation of the entries of Ω and of the true Laplacian", "higher"),
        Metric("steps", "optimiser steps"),
        Metric("seconds", "seconds of training", "lower", unit="s"),
    )

    def __init__(
        self, config: LaplacianConfig, method: str, seed: int, data_dir: Path | None, device: torch.device
    ) -> None:
        super().__init__(config, method, seed, data_dir, device)
        identity = nn.Identity()
        spectrum = LearnedSpectrum(
            config.size**2, config.rank or config.full_rank, config.eigenvalues, config.damping, config.eigenfunctions
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
        self.train_crops = self.observed(crops(train_images, config.pool, config.size, seed).to(device))
        self.test_crops = self.observed(crops(test_images, 2_000, config.size, EVALUATION_SEED).to(device))

    @abstractmethod
    def truth(self) -> Truth:
        """The eigenfunctions that are to be found, in float64."""

    @abstractmethod
    def laplacian(self) -> Float[Tensor, "points points"]:
        """The operator that has them, in float64."""

    @abstractmethod
    def motions(self, count: int) -> Shaped[Tensor, "count ..."]:
        """Random isometries of the domain."""

    @abstractmethod
    def move(
        self, x: Float[Tensor, "batch points channels"], motions: Shaped[Tensor, "batch ..."]
    ) -> Float[Tensor, "batch points channels"]:
        """Observations, each under its own motion."""

    def observed(self, pool: Float[Tensor, "count points 3"]) -> Float[Tensor, "count points 3"]:
        """Crops as functions on the domain."""
        return pool

    def phases(self) -> Iterator[Phase]:
        config = self.config
        objective = IsometryObjective(self.model, config.equivariance, config.multiplicity, config.multiplicity_decay)
        yield Phase("pretrain", objective, self.sample, config.training)

    def sample(self, step: int) -> tuple[Tensor, Tensor]:
        """Pairs (ψ, Tψ) of training crops: this process's part of the batch."""
        return self._pairs(self.train_crops, self.config.training.batch_size, distributed=True)[:2]

    def _pairs(self, pool: Tensor, count: int, distributed: bool = False) -> tuple[Tensor, Tensor, Tensor]:
        choice = torch.randint(len(pool), (count, self.config.images), device=self.device)
        motions = self.motions(count)
        if distributed:
            choice, motions = local_part(choice), local_part(motions)
        x = pool[choice].transpose(1, 2).flatten(2)
        return x, self.move(x, motions), motions

    @torch.no_grad()
    def held_out(self) -> Evaluation:
        """Held-out pairs, the maps solved for them, and the true space that each eigenfunction is matched to."""
        torch.manual_seed(EVALUATION_SEED)
        x, tx, motions = self._pairs(self.test_crops, self.config.evaluation_pairs)
        spectrum = Spectrum(*(part.cpu() for part in self.model.spectrum()))
        truth = self.truth()
        energy = metrics.eigenspace_energy(spectrum.mass, spectrum.eigenfunctions, truth.functions, truth.spaces)
        tau = self.model.map_between(x, tx).cpu()
        return Evaluation(spectrum, energy, energy.argmax(-1), tau, x.cpu(), tx.cpu(), motions.cpu())

    @torch.no_grad()
    def evaluate(self) -> dict[str, float]:
        return self.figures(self.held_out())

    def figures(self, held_out: Evaluation) -> dict[str, float]:
        """Figures that torus and sphere share."""
        from scipy.stats import spearmanr

        spectrum = held_out.spectrum
        a, b = spectrum.project(held_out.x), spectrum.project(held_out.tx)
        common = metrics.constant_part(spectrum, held_out.tx)
        share, chance = metrics.block_energy(held_out.tau, held_out.spaces)
        best = held_out.energy.amax(-1)
        operator, laplacian = spectrum.operator().double(), self.laplacian()
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

    def space_eigenvalues(self) -> Float[Tensor, " spaces"]:
        """Laplacian eigenvalue of every true space."""
        truth = self.truth()
        values = torch.zeros(int(truth.spaces.max()) + 1, dtype=torch.float64)
        values[truth.spaces] = truth.eigenvalues
        return values

    def frequency_energies(self, energy: Float[Tensor, "rank spaces"]) -> Float[Tensor, " rank"]:
        """Mean Laplacian eigenvalue of every learned eigenfunction."""
        return energy @ self.space_eigenvalues()
