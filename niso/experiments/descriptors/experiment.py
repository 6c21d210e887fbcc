"""An operator over intrinsic descriptors of surfaces, learned from near-isometric pairs (not in the paper).

The field of a `niso.FieldSpectrum` is over heat and wave kernel signatures instead of places on a grid, so that the
same eigenfunctions can be read on any surface: of any genus, with or without boundary, with any connectivity. Each
surface of a pair has its own Φ, orthonormal by the areas of its own vertices. An encoder of single points takes
descriptors to latent functions; their coefficients on the two surfaces are related by τ as in the paper.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from niso import losses, metrics
from niso.checks import check_choice
from niso.config import Optimisation, require
from niso.errors import InputError
from niso.experiments.descriptors.surfaces import Example, Seen, Surfaces, base_meshes, example, seen
from niso.experiments.experiment import Experiment, Own, Phase
from niso.functional_map import commuting_map, isometric_map
from niso.linalg import polar
from niso.methods.config import FieldConfig, IsometryConfig
from niso.methods.method import Networks
from niso.networks.mlp import MLP, MLPConfig
from niso.random import local_part, step_seed
from niso.results import Metric, Result
from niso.spectrum import FieldSpectrum, Spectrum

NEAR = 0.1
"""Share of √area within which a point is matched correctly."""


@dataclass(frozen=True)
class DescriptorsConfig(IsometryConfig):
    """Settings of the experiment."""

    surfaces: Surfaces = "family"
    """Surfaces that niso makes, where there is no --data-dir of meshes."""
    vertices: int = 500
    """Vertices of each, about."""
    train_shapes: int = 20
    """Surfaces to train on, each with a partner."""
    validation_shapes: int = 5
    """Other surfaces: settings are chosen by their metrics."""
    test_shapes: int = 10
    """Other surfaces, to test on."""
    strength: float = 0.1
    """Of the deformations that make partners, see `niso.geometry.mesh.deformation`: the relative change of lengths."""
    times: int = 8
    """Times of the heat kernel signature."""
    energies: int = 8
    """Energies of the wave kernel signature."""
    eigenpairs: int = 48
    """Eigenpairs of the Laplacian in the descriptors."""
    latent_channels: int = 16
    """Channels d of the latent functions."""
    mlp: MLPConfig = field(default_factory=lambda: MLPConfig(2, 64))
    """Encoder and decoder of single points."""

    def __post_init__(self) -> None:
        super().__post_init__()
        names = ("vertices", "train_shapes", "test_shapes", "times", "energies", "eigenpairs", "latent_channels")
        require(self, *names, positive=True)
        require(self, "strength", "validation_shapes")
        check_choice("surfaces", self.surfaces, Surfaces)


QUICK = DescriptorsConfig(
    rank=20,
    spectrum="field",
    eigenvalues="shifted",
    norm="l2",
    multiplicity=0.001,
    field=FieldConfig(features="fourier", frequencies=48, scale=0.3, width=64, layers=1),
    training=Optimisation(
        steps=1_000,
        batch_size=4,
        learning_rate=2e-3,
        final_learning_rate=0.0,
        warmup_steps=100,
        eigenvalue_learning_rate=1e-2,
    ),
)
"""Twenty pairs of surfaces of 500 vertices.

`niso run descriptors`: four minutes on one core of an Intel Xeon. Records: results/descriptors."""

TORI = replace(QUICK, surfaces="tori")
"""The same with lumpy tori. `niso run descriptors --preset tori`. Records: results/descriptors."""

OPEN = replace(QUICK, surfaces="open")
"""The same with the embedded classes, cut open at one end. `niso run descriptors --preset open`. Records:
results/descriptors."""

_DISTANCE = "distance of matched points from the true ones, on the remeshed partner, in √area (mean)"
_ACCURACY = f"share of points that are matched within {NEAR} √area"
_WAYS = {
    "": "",
    "_classical": ", classical functional map",
    "_nearest": ", nearest descriptors",
    "_chance": ", random points",
}


class Basis(NamedTuple):
    """A surface in the eigenbasis: its spectrum, latents' coefficients, and what networks see."""

    spectrum: Spectrum
    coefficients: Float[Tensor, "rank channels"]
    seen: Seen


class PointModel(nn.Module):
    """Field, encoder and decoder, all of single points.

    Args:
        special, damping: of maps, see `niso.isometric_map`.
    """

    def __init__(
        self, spectrum: FieldSpectrum, encoder: nn.Module, decoder: nn.Module, special: bool, damping: float
    ) -> None:
        super().__init__()
        self.spectrum, self.encoder, self.decoder = spectrum, encoder, decoder
        self.special, self.damping = special, damping

    def basis(self, surface: Seen) -> Basis:
        """A surface's eigenfunctions, and the coefficients of its latent functions."""
        spectrum = self.spectrum.at(*surface, checked=True)  # by `seen`
        latents = self.encoder(surface.points.to(self.spectrum.places))
        return Basis(spectrum, spectrum.project(latents.to(spectrum.eigenfunctions)), surface)

    def solve(self, a: Basis, b: Basis) -> Float[Tensor, "rank rank"]:
        """The map from one surface to another (paper eq. 8)."""
        eigenvalues = a.spectrum.eigenvalues
        return isometric_map(a.coefficients, b.coefficients, eigenvalues, special=self.special, damping=self.damping)


class PointObjective(nn.Module):
    """Reconstruction, equivariance and multiplicity losses (paper eq. 9–11) of pairs with a spectrum each."""

    def __init__(self, model: PointModel, pairs: list[tuple[Seen, Seen]], config: DescriptorsConfig) -> None:
        super().__init__()
        self.model, self.pairs, self.config = model, pairs, config

    def forward(self, batch: tuple[Int[Tensor, " batch"]], progress: float) -> dict[str, Float[Tensor, ""]]:
        terms = [self._pair(*self.pairs[number]) for number in batch[0].tolist()]
        means = {name: torch.stack([term[name] for term in terms]).mean() for name in terms[0]}
        multiplicity = losses.multiplicity(self.model.spectrum.eigenvalues_alone())
        config = self.config
        decayed = losses.decayed(config.multiplicity, config.multiplicity_decay, progress)
        loss = means["reconstruction"] + config.equivariance * means["equivariance"] + decayed * multiplicity
        return {"loss": loss, **means, "multiplicity": multiplicity}

    def _pair(self, first: Seen, second: Seen) -> dict[str, Float[Tensor, ""]]:
        a, b = self.model.basis(first), self.model.basis(second)
        tau, norm = self.model.solve(a, b), self.config.norm
        forward, backward = tau @ a.coefficients, tau.mT @ b.coefficients
        there, here = b.spectrum.unproject(forward), a.spectrum.unproject(backward)
        return {
            "reconstruction": losses.reconstruction(self._decoded(there), second.points, norm)
            + losses.reconstruction(self._decoded(here), first.points, norm),
            "equivariance": losses.transport(a.coefficients, b.coefficients, forward, backward, norm),
        }

    def _decoded(self, latents: Float[Tensor, "points channels"]) -> Float[Tensor, "points descriptors"]:
        parameter = next(self.model.decoder.parameters())
        return self.model.decoder(latents.to(parameter.dtype))


class Matched(NamedTuple):
    """A held-out pair: what a figure draws.

    Attributes:
        functions: eigenfunctions on each mesh, in ascending eigenvalue.
    """

    example: Example
    functions: tuple[Float[np.ndarray, "vertices rank"], ...]


@dataclass
class DescriptorsResult(Result):
    """What figures are drawn from."""

    matched: list[Matched]


class Descriptors(Experiment):
    """The experiment, see the module."""

    config: DescriptorsConfig
    name = "descriptors"
    summary = (
        "Eigenfunctions are learned as functions of intrinsic descriptors, heat and wave kernel signatures, from pairs "
        "of near-isometric surfaces. They are then read on other surfaces, and on partners with another connectivity. "
        "The rivals are the classical functional map, between Laplacians, and the nearest neighbour by descriptors."
    )
    config_class = DescriptorsConfig
    presets: ClassVar[dict[str, Any]] = {"quick": QUICK, "tori": TORI, "open": OPEN}
    preset_notes: ClassVar[dict[str, str]] = {
        "quick": "ten classes of closed surfaces: four minutes on one core",
        "tori": "lumpy tori: the same",
        "open": "the classes cut open: the same",
    }
    examples: ClassVar[dict[str, str]] = {
        "niso run descriptors": "surfaces that niso makes itself",
        "niso run descriptors --preset tori": "of another genus",
    }
    metrics: ClassVar[tuple[Metric, ...]] = (
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
        Metric("function_energy", "share of these functions in the span of the learned eigenfunctions", "higher"),
        Metric("function_energy_classical", "the same of as many eigenfunctions of the Laplacian", "higher"),
        *(Metric(f"match_distance{name}", f"{_DISTANCE}{how}", "lower") for name, how in _WAYS.items()),
        *(Metric(f"match_accuracy{name}", f"{_ACCURACY}{how}", "higher") for name, how in _WAYS.items()),
        Metric("match_accuracy_val", "match_accuracy on validation surfaces", "higher"),
        Metric("test_shapes", "held-out surfaces"),
    )
    figures = "niso.experiments.descriptors.figures"

    @classmethod
    def rebuild(cls, config: Any, facts: Mapping[str, Any], own: Own | None = None) -> tuple[Any, Networks]:
        raise InputError(
            "runs of descriptors are not loaded: each of its surfaces has eigenfunctions of its own, and no latents "
            "without them"
        )

    def build(self) -> None:
        config = self.config
        if config.spectrum != "field":
            raise InputError("descriptors are no grid: give --spectrum field")
        parts = [config.train_shapes, config.validation_shapes, config.test_shapes]
        try:
            made = base_meshes(config.surfaces, sum(parts), config.vertices, self.data_dir)
            shuffled = np.random.default_rng(step_seed(self.seed, 0, "split")).permutation(len(made))
            sets = np.split(shuffled, np.cumsum(parts)[:-1])
            settings = {"times": config.times, "energies": config.energies, "rank": config.eigenpairs}
            self.train, self.validation, self.test = (
                [
                    example(made[number][0], made[number][1], int(number), config.strength, bool(which), **settings)
                    for number in numbers
                ]
                for which, numbers in enumerate(sets)
            )
            values = np.concatenate([part for pair in self.train for part in pair.descriptors])
            self.mean, self.deviation = values.mean(0), np.maximum(values.std(0), 1e-6)
            pairs = [(pair[0], pair[1]) for pair in map(self.seen, self.train)]
            points = torch.cat([pair[0].points for pair in pairs])
            weights = torch.cat([pair[0].weights for pair in pairs]) / len(pairs)
            spectrum = FieldSpectrum(
                points,
                config.rank or 20,
                weights,
                eigenvalues=config.eigenvalues,
                eigenfunctions=config.eigenfunctions,
                **asdict(config.field),
            )
            sizes = points.shape[1], config.latent_channels
            encoder, decoder = MLP(*sizes, config.mlp), MLP(*sizes[::-1], config.mlp)
        except ValueError as error:
            raise InputError(str(error)) from error
        self.model = PointModel(spectrum, encoder, decoder, config.special, config.damping).to(self.device)
        self.objective = PointObjective(self.model, pairs, config)

    @classmethod
    def methods(cls) -> tuple[str, ...]:
        return ("niso",)

    @classmethod
    def unread(cls, config: DescriptorsConfig, method: str, data_dir: Path | None) -> dict[str, str]:
        unread = {
            "evaluation_pairs": "every held-out surface makes one pair, see --test-shapes",
            "spectral_dropout": "no coefficients are dropped here",
            "eigenvalue_noise": "maps are solved with the eigenvalues as they are",
            "whitened": "all eigenfunctions count by their coefficients here",
        }
        if data_dir is not None:
            unread |= dict.fromkeys(("surfaces", "vertices"), "--data-dir replaces the surfaces that niso makes")
        return super().unread(config, method, data_dir) | unread

    def seen(self, pair: Example) -> tuple[Seen, ...]:
        """The meshes of an example as networks see them, on the device."""
        parts = (
            seen(mesh, values, self.mean, self.deviation)
            for mesh, values in zip(pair.meshes, pair.descriptors, strict=True)
        )
        dtype = torch.get_default_dtype()
        return tuple(Seen(*(tensor.to(self.device, dtype) for tensor in part)) for part in parts)

    def facts(self) -> dict[str, Any]:
        """The split."""
        sets = {"train": self.train, "validation": self.validation, "test": self.test}
        return {f"{name}_shapes": [pair.name for pair in pairs] for name, pairs in sets.items()}

    def phases(self) -> Iterator[Phase]:
        yield Phase("pretrain", self.objective, self.sample, self.config.training)

    def sample(self, step: int) -> tuple[Int[Tensor, " batch"]]:
        """Numbers of training pairs: this process's part of the batch."""
        return (local_part(torch.randint(len(self.train), (self.config.training.batch_size,))),)

    # Evaluation

    @torch.no_grad()
    def evaluate(self) -> DescriptorsResult:
        self.model.eval()
        rows, matched = [], []
        for pair in self.test:
            row, drawn = self.measure(pair)
            rows.append(row)
            matched.append(drawn)
        values = {key: float(np.mean([row[key] for row in rows])) for key in rows[0]}
        if self.validation:
            accuracies = [self.measure(pair)[0]["match_accuracy"] for pair in self.validation]
            values["match_accuracy_val"] = float(np.mean(accuracies))
        return DescriptorsResult(values | {"test_shapes": len(self.test)}, matched=matched)

    def measure(self, pair: Example) -> tuple[dict[str, float], Matched]:
        """Metrics of one pair, and what a figure draws of it."""
        surfaces = self.seen(pair)
        a, b, c = (self.model.basis(surface) for surface in surfaces)
        to_partner, to_other = self.model.solve(a, b), self.model.solve(a, c)
        rank = len(to_other)
        identity = torch.eye(rank).to(to_other)
        coordinates = torch.from_numpy(pair.meshes[0].vertices)
        assert pair.carry is not None
        carried = torch.from_numpy(pair.carry @ pair.meshes[0].vertices)
        classical = [pair.laplacian(which, rank) for which in (0, 2)]
        known = [classical[i].project(surfaces[2 * i].points.double().cpu()) for i in (0, 1)]
        first, last = (part.eigenvalues for part in classical)
        c_map = polar(commuting_map(known[0], known[1], first, last))  # that of an isometry
        learned = [part.spectrum for part in (a, c)]
        values = {
            "equivariance_error": _error(to_partner, a.coefficients, b.coefficients),
            "equivariance_error_remeshed": _error(to_other, a.coefficients, c.coefficients),
            "relative_map_error_remeshed": _error(to_partner, a.coefficients, c.coefficients),
            "coefficient_error_remeshed": _relative(c.coefficients, b.coefficients),
            "identity_distance": ((to_other - identity).square().sum() / rank).item(),
        }
        for name, spectra, tau in (("", learned, to_other), ("_classical", classical, c_map)):
            here, there = (
                spectrum.project(f.to(spectrum.mass))
                for spectrum, f in zip(spectra, (coordinates, carried), strict=True)
            )
            values[f"function_map_error{name}"] = _error(tau, here, there)
            values[f"function_energy{name}"] = _energy(spectra[0], coordinates.to(spectra[0].mass))
        matches = {
            "": _nearest(learned[0].eigenfunctions @ to_other.mT, learned[1].eigenfunctions),
            "_classical": _nearest(classical[0].eigenfunctions @ c_map.mT, classical[1].eigenfunctions),
            "_nearest": _nearest(surfaces[0].points, surfaces[2].points),
            "_chance": np.random.default_rng(0).integers(len(carried), size=len(coordinates)),
        }
        away, true = pair.distances(), pair.same_point()
        found = {name: away[match, true] for name, match in matches.items()}
        values |= {f"match_distance{name}": float(part.mean()) for name, part in found.items()}
        values |= {f"match_accuracy{name}": float((part <= NEAR).mean()) for name, part in found.items()}
        ordered = {metric.key: values[metric.key] for metric in self.metrics if metric.key in values}
        order = a.spectrum.eigenvalues.argsort()
        functions = tuple(part.spectrum.eigenfunctions[:, order].double().cpu().numpy() for part in (a, b, c))
        return ordered, Matched(pair, functions)


def _error(tau: Tensor, a: Tensor, b: Tensor) -> float:
    return metrics.equivariance_error(a, b, tau=tau).item()


def _relative(a: Tensor, b: Tensor) -> float:
    return ((a - b).norm() / b.norm()).item()


def _energy(spectrum: Spectrum, f: Float[Tensor, "points channels"]) -> float:
    """Share of functions, less their means, in the span of the eigenfunctions."""
    mass = spectrum.mass[:, None]
    f = f - (mass * f).sum(0) / mass.sum()
    kept = spectrum.unproject(spectrum.project(f))
    return ((mass * kept.square()).sum() / (mass * f.square()).sum()).item()


def _nearest(
    points: Float[Tensor, "points dimensions"], others: Float[Tensor, "others dimensions"]
) -> Int[np.ndarray, " points"]:
    return torch.cdist(points.double(), others.double()).argmin(1).cpu().numpy()
