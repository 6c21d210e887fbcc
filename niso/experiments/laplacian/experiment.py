"""Discovering a Laplacian's eigenspaces from pairs of photographs: what torus and sphere share (paper §4.3).

Encoder and decoder are the identity. An observation is a stack of small photograph crops, its channels; the other
one of a pair is the same stack, moved by a random isometry of the domain.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, replace
from itertools import chain
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Protocol, cast, runtime_checkable

import torch
from jaxtyping import Float, Int, Shaped
from torch import Tensor, nn

from niso import metrics
from niso.collective import local_part
from niso.data.photographs import crops, photographs
from niso.errors import InputError
from niso.experiments.experiment import Experiment, Phase
from niso.experiments.laplacian.config import LaplacianConfig
from niso.experiments.own import Own
from niso.files.digests import digest, digest_of_files
from niso.functional_map import Mask, isometric_map
from niso.geometry.action import Action
from niso.geometry.domains.domain import Sampling
from niso.linalg import span
from niso.methods.config import IsometryConfig, MethodConfig
from niso.methods.evaluation.pairs import EQUIVARIANCE_ERROR, EQUIVARIANCE_ERROR_CENTRED, RELATIVE_MAP_ERROR
from niso.methods.method import Method, Networks
from niso.model import NeuralIsometry
from niso.random import EVALUATION_SEED, step_seed
from niso.results import Curve, Metric, Result
from niso.spectrum import Spectrum

VALIDATION_SEED = step_seed(20_241_211, 0, "validation")
"""Of the validation crops and motions: no seed of a run, by which training crops of the same photographs are drawn."""
EVALUATION_CROPS = 2_000
"""Held-out crops that observations are stacked from."""

MASKS: dict[str, Mask] = {"map_error_by_crops": "soft", "map_error_by_crops_unmasked": None}
"""Curves, and which maps they admit: those that nearly commute with the operator, and all orthogonal ones."""


@runtime_checkable  # for the tests' check of every call
class Truth(Protocol):
    """True eigenfunctions of the domain, see `Harmonics` in `niso.geometry.domains.torus` and `.sphere`."""

    @property
    def functions(self) -> Float[Tensor, "points true"]: ...
    @property
    def spaces(self) -> Int[Tensor, " true"]: ...
    @property
    def eigenvalues(self) -> Float[Tensor, " true"]: ...


class HeldOut(NamedTuple):
    """Held-out pairs, the maps solved for them, and what each eigenfunction is; on the CPU.

    Attributes:
        energy: of every eigenfunction in each true space, in the M-inner product.
        spaces: the true space that each eigenfunction is matched to, no more to a space than its dimension.
        tau: maps of the pairs.
        x, tx: their observations.
        motions: that relate them.
    """

    spectrum: Spectrum
    energy: Float[Tensor, "rank spaces"]
    spaces: Int[Tensor, " rank"]
    tau: Float[Tensor, "pairs rank rank"]
    x: Float[Tensor, "pairs points channels"]
    tx: Float[Tensor, "pairs points channels"]
    motions: Shaped[Tensor, "pairs ..."]


class Reading(NamedTuple):
    """What was learned, read at another sampling of the domain than it was trained on; on the CPU.

    Attributes:
        points: of this sampling.
        held_out: what was found at its own sampling.
        spectrum: at this one.
        energy: of every eigenfunction in each true space here, in the M-inner product.
        functions: the true functions here.
    """

    points: Float[Tensor, "points dimensions"]
    held_out: HeldOut
    spectrum: Spectrum
    energy: Float[Tensor, "rank spaces"]
    functions: Float[Tensor, "points true"]


@dataclass
class LaplacianResult(Result):
    """What figures of torus and sphere are drawn from.

    Attributes:
        values: Laplacian eigenvalue of every true space.
        laplacian: the true operator.
        grid: height and width of the domain.
        readings: what was learned at other samplings, by name; of fields alone.
    """

    held_out: HeldOut
    truth: Truth
    values: Float[Tensor, " spaces"]
    laplacian: Float[Tensor, "points points"]
    grid: tuple[int, int]
    readings: dict[str, Reading]


class LaplacianExperiment(Experiment):
    """What the torus and the sphere experiment share, see the module."""

    config: LaplacianConfig
    method: Method
    pictures_of_curves: ClassVar[frozenset[str]] = frozenset({"map_errors"})
    metrics: ClassVar[tuple[Metric, ...]] = (
        Metric("eigenspace_energy", "energy of a learned eigenfunction in its best true eigenspace (mean)", "higher"),
        Metric("eigenspace_energy_worst", "the same, of the worst eigenfunction", "higher"),
        Metric(
            "map_block_energy",
            "share of τ_Ω² between eigenfunctions matched to the same true eigenspace, no more than its dimension",
            "higher",
        ),
        Metric("map_block_energy_chance", "the same for a random partition of the same sizes"),
        replace(
            RELATIVE_MAP_ERROR,
            text="‖τ′a − b‖² / ‖b‖² with the τ′ of other crops under the same motion, drawn from the same pool: a few "
            "may be the same (mean)",
        ),
        Metric(
            "relative_map_error_one",
            "the same with the τ′ of one other crop, of three channels (equal ones where photographs are grey)",
            "lower",
        ),
        Metric(
            "relative_map_error_one_free",
            "the same with any orthogonal τ′, without the operator, that is 0 on what the three channels do not show",
            "lower",
        ),
        EQUIVARIANCE_ERROR,
        replace(
            EQUIVARIANCE_ERROR_CENTRED, text="the same, relative to what is left of b without each function's mean"
        ),
        Metric(
            "frequency_rank_correlation",
            "Spearman correlation of learned eigenvalues and the Laplacian's: of each eigenfunction the mean over true "
            "eigenspaces, weighted by its energy there",
            "higher",
        ),
        Metric("operator_correlation", "Pearson correlation of the entries of Ω and of the true Laplacian", "higher"),
        Metric(
            "map_block_energy_val", "map_block_energy on validation crops: others of the training photographs", "higher"
        ),
        Metric("equivariance_error_val", "equivariance_error on validation crops", "lower"),
    )

    model_metric = "eigenspace_energy"

    def build(self) -> None:
        config, data_dir, device = self.config, self.data_dir, self.device
        settings, networks = self.rebuild(config, {})
        self.method = self.make_method(lambda: networks, settings)
        self.model = cast(NeuralIsometry, self.method.model)
        self.action = self.make_action()
        train_images, test_images = photographs(data_dir)
        files = [[Path(image.info["path"]) for image in part] for part in (train_images, test_images)]
        names = ["\n".join(file.name for file in part) for part in files]
        self.split = digest(*(part.encode(errors="surrogateescape") for part in names))
        self.content = "" if data_dir is None else digest_of_files(list(chain(*files)))
        self.train_crops = self.observed(crops(train_images, config.pool, config.size, self.seed).to(device))
        self.validation_crops, self.test_crops = (
            self.observed(crops(images, EVALUATION_CROPS, config.size, seed).to(device))
            for images, seed in ((train_images, VALIDATION_SEED), (test_images, EVALUATION_SEED))
        )
        for role, part in (("to train on", self.train_crops), ("held out", self.test_crops)):
            if bool((part == part[:, :1]).all()):
                raise InputError(f"--data-dir {data_dir}: each of the images {role} is of a single colour: add others")

    @classmethod
    def methods(cls) -> tuple[str, ...]:
        return ("niso",)

    @abstractmethod
    def make_action(self) -> Action:
        """The isometries of the domain that relate the two observations of a pair."""

    def facts(self) -> dict[str, Any]:
        config = self.config
        shape, scaling = [config.size**2, 3 * config.images], {"offset": [0.0], "scale": [1.0]}
        data = {"kind": "points", "shape": shape, "scaling": scaling, "any_channels": True}
        return {"data": data, "split": self.split} | ({"content": self.content} if self.content else {})

    @classmethod
    def rebuild(
        cls, config: LaplacianConfig, facts: Mapping[str, Any], own: Own | None = None
    ) -> tuple[MethodConfig, Networks]:
        shared = {field.name: getattr(config, field.name) for field in fields(IsometryConfig)}
        grid = (config.size, config.size)
        networks = Networks(nn.Identity(), nn.Identity(), grid, 3 * config.images, cls.domain)
        return MethodConfig(**{**shared, "rank": config.rank or config.full_rank}), networks

    @staticmethod
    @abstractmethod
    def domain(height: int, width: int) -> Sampling:
        """Where the points of a grid lie."""

    @abstractmethod
    def truth(self) -> Truth:
        """The eigenfunctions that are to be found, in float64."""

    def samplings(self) -> dict[str, Sampling]:
        """Other samplings of the domain, by name, on which what a field has learned is read."""
        return {}

    @abstractmethod
    def truth_at(self, points: Float[Tensor, "points dimensions"]) -> Float[Tensor, "points true"]:
        """The functions of `truth` at any points, in float64, orthonormal or not."""

    @abstractmethod
    def laplacian(self) -> Float[Tensor, "points points"]:
        """The operator that has them, in float64."""

    def observed(self, pool: Float[Tensor, "count points 3"]) -> Float[Tensor, "count points 3"]:
        """Crops as functions on the domain."""
        return pool

    def phases(self) -> Iterator[Phase]:
        yield Phase("pretrain", self.method.objective(), self.sample, self.config.training)

    def sample(self, step: int) -> tuple[Tensor, Tensor]:
        """Pairs (ψ, Tψ) of training crops: this process's part of the batch."""
        config = self.config
        count = config.training.batch_size
        choice = torch.randint(len(self.train_crops), (count, config.images))
        motions = self.action.sample(count)
        x = self.stacked(self.train_crops, local_part(choice))
        return x, self.action.act(x, local_part(motions))

    def stacked(
        self, pool: Float[Tensor, "crops points 3"], choice: Int[Tensor, "count images"]
    ) -> Float[Tensor, "count points channels"]:
        """Observations: the chosen crops, one upon the other."""
        return pool[choice.to(pool.device, non_blocking=True)].transpose(1, 2).flatten(2)

    # Evaluation

    @torch.no_grad()
    def held_out(self, pool: Float[Tensor, "crops points 3"], seed: int) -> HeldOut:
        """Held-out pairs, and the maps solved for them."""
        generator = torch.Generator().manual_seed(seed)
        count = self.config.evaluation_pairs
        choice = torch.randint(len(pool), (count, self.config.images), generator=generator)
        motions = self.action.sample(count, generator)
        x = self.stacked(pool, choice)
        tx = self.action.act(x, motions)
        spectrum = Spectrum(*(part.cpu() for part in self.model.spectrum()))
        truth = self.truth()
        energy = metrics.eigenspace_energy(spectrum.mass, spectrum.eigenfunctions, truth.functions, truth.spaces)
        spaces = metrics.matched_spaces(energy, truth.spaces.bincount())
        return HeldOut(spectrum, energy, spaces, self.model.map_between(x, tx).cpu(), x.cpu(), tx.cpu(), motions.cpu())

    @torch.no_grad()
    def evaluate(self) -> LaplacianResult:
        held_out = self.held_out(self.test_crops, EVALUATION_SEED)
        validation = self.held_out(self.validation_crops, VALIDATION_SEED)
        values = self.measure(held_out)
        others = self.measure(validation)
        values |= {f"{key}_val": others[key] for key in ("map_block_energy", "equivariance_error")}
        by_crops = self.map_errors_by_crops(held_out)
        masked, unmasked = by_crops.values()
        values["relative_map_error"] = masked["y"][-1]
        values |= {"relative_map_error_one": masked["y"][0], "relative_map_error_one_free": unmasked["y"][0]}
        readings = self.readings(held_out)
        for name, reading in readings.items():
            values |= {f"{key}_{name}": value for key, value in self.measure_reading(reading).items()}
        grid = (self.config.size, self.config.size)
        return LaplacianResult(
            values,
            held_out,
            self.truth(),
            self.space_eigenvalues(),
            self.laplacian(),
            grid,
            readings,
            curves=by_crops,
        )

    def measure(self, held_out: HeldOut) -> dict[str, float]:
        """Metrics that torus and sphere share."""
        from scipy.stats import spearmanr  # slow to import

        spectrum = held_out.spectrum
        a, b = spectrum.project(held_out.x), spectrum.project(held_out.tx)
        common = metrics.constant_part(spectrum, held_out.tx)
        share, chance = metrics.block_energy(held_out.tau, held_out.spaces)
        best = held_out.energy.amax(-1)
        pair = torch.stack([part.flatten() for part in (spectrum.operator().double(), self.laplacian())])
        frequencies = held_out.energy @ self.space_eigenvalues()
        return {
            "eigenspace_energy": best.mean().item(),
            "eigenspace_energy_worst": best.min().item(),
            "map_block_energy": share.mean().item(),
            "map_block_energy_chance": chance.mean().item(),
            "equivariance_error": metrics.equivariance_error(a, b, tau=held_out.tau).mean().item(),
            "equivariance_error_centred": metrics.equivariance_error(a, b, tau=held_out.tau, common=common)
            .mean()
            .item(),
        } | (
            {  # of one eigenvalue there is no order
                "frequency_rank_correlation": float(spearmanr(spectrum.eigenvalues, frequencies).statistic),
                "operator_correlation": torch.corrcoef(pair)[0, 1].item(),
            }
            if len(spectrum.eigenvalues) > 1
            else {}
        )

    def readings(self, held_out: HeldOut) -> dict[str, Reading]:
        """The spectrum at other samplings; nothing where it is known on its own grid alone."""
        readings = {}
        for name, sampling in self.samplings().items():
            spectrum = self.method.spectrum_at(sampling)
            if spectrum is not None:
                read, functions = Spectrum(*(part.cpu() for part in spectrum)), self.truth_at(sampling.points)
                energy = metrics.eigenspace_energy(read.mass, read.eigenfunctions, functions, self.truth().spaces)
                readings[name] = Reading(sampling.points, held_out, read, energy, functions)
        return readings

    def measure_reading(self, reading: Reading) -> dict[str, float]:
        """Metrics of the spectrum at another sampling."""
        best = reading.energy.amax(-1)
        return {"eigenspace_energy": best.mean().item(), "eigenspace_energy_worst": best.min().item()}

    def map_errors_by_crops(self, held_out: HeldOut) -> dict[str, Curve]:
        """Errors of maps that are solved from one, two, four … all crops of the next pair, moved as those of this one:
        a curve for each of `MASKS`. Without a mask a map is 0 on what these crops do not show, where any orthogonal one
        would do: all that they tell, and nothing by chance."""
        spectrum, other = held_out.spectrum, held_out.x.roll(1, 0).to(self.device)
        moved = self.action.act(other, held_out.motions)
        a, b, c, d = (spectrum.project(x.cpu()) for x in (held_out.x, held_out.tx, other, moved))
        images = self.config.images
        counts = [*(2**power for power in range((images - 1).bit_length())), images]

        def error(count: int, mask: Mask) -> float:
            seen = slice(3 * count)
            tau = isometric_map(c[..., seen], d[..., seen], spectrum.eigenvalues, mask, self.config.special)
            if mask is None:  # where few channels leave it open
                tau = tau @ span(c[..., seen])
            return metrics.relative_map_error(a, b, tau_other=tau).mean().item()

        return {
            key: {
                "x": [float(count) for count in counts],
                "y": [error(count, mask) for count in counts],
                "count": [len(a)] * len(counts),
                "x_label": "crops that a map is solved from, of three channels each",
                "y_label": "relative map error on others",
                "logarithmic": "xy",
            }
            for key, mask in MASKS.items()
        }

    def space_eigenvalues(self) -> Float[Tensor, " spaces"]:
        """Laplacian eigenvalue of every true space."""
        truth = self.truth()
        values = torch.zeros(int(truth.spaces.max()) + 1, dtype=torch.float64)
        values[truth.spaces] = truth.eigenvalues
        return values
