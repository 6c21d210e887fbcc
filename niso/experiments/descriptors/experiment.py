"""An operator over intrinsic descriptors of surfaces, learned from near-isometric pairs (not in the paper).

The field of a `niso.FieldSpectrum` is over heat and wave kernel signatures instead of places on a grid, so that the
same eigenfunctions can be read on any surface: of any genus, with or without boundary, with any connectivity. Each
surface of a pair has its own Φ, orthonormal by the areas of its own vertices. An encoder of single points takes
descriptors to latent functions; their coefficients on the two surfaces are related by τ as in the paper.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

from niso.collective import local_part
from niso.data.shapes.copies import copies_note, invariants
from niso.errors import InputError
from niso.experiments.descriptors.matching import METRICS, WEIGHTS, Matched, classical_accuracies, measure
from niso.experiments.descriptors.model import PointModel, PointObjective
from niso.experiments.descriptors.presets import PRESETS, DescriptorsConfig
from niso.experiments.descriptors.surfaces import Example, Seen, base_meshes, distinct, example, seen
from niso.experiments.experiment import Experiment, Phase
from niso.experiments.own import Own
from niso.files.digests import digest
from niso.methods.method import Networks
from niso.methods.spectra.field import field_spectrum
from niso.networks.mlp import MLP
from niso.random import step_seed
from niso.results import Result

Key = TypeVar("Key")


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
    presets = PRESETS
    preset_notes: ClassVar[dict[str, str]] = {
        "quick": "ten classes of closed surfaces: four minutes on one core",
        "tori": "lumpy tori: the same",
        "open": "the classes cut open: the same",
    }
    examples: ClassVar[dict[str, str]] = {
        "niso run descriptors": "surfaces that niso makes itself",
        "niso run descriptors --preset tori": "of another genus",
    }
    main_settings: ClassVar[dict[str, str]] = {
        "data-dir": "a folder of meshes instead of the surfaces that niso makes",
    }
    metrics = METRICS
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
        self.rank = config.rank or 20
        try:
            self.train, self.validation, self.test = self._examples()
            every = sorted((pair.name, pair.meshes[0]) for pair in (*self.train, *self.validation, *self.test))
            self.announcement = copies_note({name: invariants(mesh) for name, mesh in every})
            values = np.concatenate([part for pair in self.train for part in pair.descriptors])
            self.mean, self.deviation = values.mean(0), np.maximum(values.std(0), 1e-6)
            self._check_rank()
            pairs = [(pair[0], pair[1]) for pair in map(self.seen, self.train)]
            self.model = self._untrained([first for first, _ in pairs]).to(self.device)
        except ValueError as error:
            raise InputError(str(error)) from error
        self.objective = PointObjective(self.model, pairs, config)

    def _examples(self) -> Iterator[list[Example]]:
        """Surfaces to train, validate and test on, drawn from all, each with its partners."""
        config = self.config
        parts = [config.train_shapes, config.validation_shapes, config.test_shapes]
        made = base_meshes(config.surfaces, sum(parts), config.vertices, self.data_dir)
        shuffled = np.random.default_rng(step_seed(self.seed, 0, "split")).permutation(len(made))
        settings = {"times": config.times, "energies": config.energies, "rank": config.eigenpairs}
        for which, numbers in enumerate(np.split(shuffled, np.cumsum(parts)[:-1])):
            drawn = [(number, *made[number]) for number in numbers.tolist()]
            yield [
                example(name, mesh, number, config.strength, bool(which), **settings) for number, name, mesh in drawn
            ]

    def _check_rank(self) -> None:
        """InputError where a surface has too few vertices, or too few that differ, for the eigenfunctions."""
        every = (*self.train, *self.validation, *self.test)
        fewest, name = min((len(mesh.vertices), pair.name) for pair in every for mesh in pair.meshes)
        if fewest <= self.rank:
            raise InputError(
                f"{name} has {fewest} vertices (or its remeshed partner), too few for {self.rank} eigenfunctions: "
                "give a smaller --rank, or a finer mesh"
            )
        for pair in every:
            different = min(map(distinct, self.seen(pair)))
            if different < self.rank:
                raise InputError(
                    f"{pair.name} is so symmetric that its vertices have {different} different descriptors, too "
                    f"few for {self.rank} eigenfunctions: give a smaller --rank, or leave it out"
                )

    def _untrained(self, surfaces: Sequence[Seen]) -> PointModel:
        """The model, whose field is made at the points of these surfaces."""
        config = self.config
        points = torch.cat([surface.points for surface in surfaces])
        weights = torch.cat([surface.weights for surface in surfaces]) / len(surfaces)
        spectrum = field_spectrum(config, points, self.rank, weights)
        sizes = points.shape[1], config.latent_channels
        encoder, decoder = MLP(*sizes, config.mlp), MLP(*sizes[::-1], config.mlp)
        return PointModel(spectrum, encoder, decoder, config.special, config.damping)

    @classmethod
    def methods(cls) -> tuple[str, ...]:
        return ("niso",)

    @classmethod
    def unread(cls, config: DescriptorsConfig, method: str, data_dir: Path | None) -> dict[str, str]:
        unread = {
            "evaluation_pairs": "every held-out surface makes one pair, see --test-shapes",
            "spectral_dropout": "no coefficients are dropped here",
            "whitened": "all eigenfunctions count by their coefficients here",
        }
        noise = ("eigenvalue_noise", "eigenvalue_noise_decay")
        unread |= dict.fromkeys(noise, "maps are solved with the eigenvalues as they are")
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
        """The split, and a checksum of the user's meshes."""
        sets = {"train": self.train, "validation": self.validation, "test": self.test}
        names = {f"{name}_shapes": [pair.name for pair in pairs] for name, pairs in sets.items()}
        meshes = [part.tobytes() for pairs in sets.values() for pair in pairs for part in pair.meshes[0]]
        return names if self.data_dir is None else {**names, "content": digest(*meshes)}

    def phases(self) -> Iterator[Phase]:
        yield Phase("pretrain", self.objective, self.sample, self.config.training)

    def sample(self, step: int) -> tuple[Int[Tensor, " batch"]]:
        """Numbers of training pairs: this process's part of the batch."""
        return (local_part(torch.randint(len(self.train), (self.config.training.batch_size,))),)

    # Evaluation

    @torch.no_grad()
    def evaluate(self) -> DescriptorsResult:
        self.model.eval()
        weight, chosen = WEIGHTS[0], dict[str, float]()
        if self.validation:
            tried = _means([classical_accuracies(pair, self.seen(pair), self.rank) for pair in self.validation])
            weight = max(tried, key=tried.__getitem__)
            learned = _means([measure(self.model, pair, self.seen(pair))[0] for pair in self.validation])
            chosen = {
                "match_accuracy_val": learned["match_accuracy"],
                "match_accuracy_classical_val": tried[weight],
                "classical_weight": weight,
            }
        rows, matched = zip(*(measure(self.model, pair, self.seen(pair), weight) for pair in self.test), strict=True)
        return DescriptorsResult({**_means(rows), **chosen, "test_shapes": len(self.test)}, matched=list(matched))


def _means(rows: Sequence[Mapping[Key, float]]) -> dict[Key, float]:
    return {key: float(np.mean([row[key] for row in rows])) for key in rows[0]}
