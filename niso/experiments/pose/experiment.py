"""Camera poses from video: relative motions are predicted from the maps between the latents of two frames (paper §5.3).

An encoder is pre-trained on pairs of frames of the same video, without poses, and frozen. A head then predicts the
relative pose of two cameras from nothing but the map τ_Ω between their frames; such poses compose to trajectories.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from math import ceil
from pathlib import Path
from typing import Any, ClassVar

import torch
from jaxtyping import Float
from torch import Tensor

from niso.collective import global_batch, part_size, process
from niso.errors import InputError
from niso.experiments import partial_views
from niso.experiments.experiment import PIXELS, Experiment, Phase
from niso.experiments.head import OF_FROZEN
from niso.experiments.own import Own
from niso.experiments.partial_views import PartialViews
from niso.experiments.pose import baselines, cases, evaluation, passing, rooms, trajectories
from niso.experiments.pose.doubts import about_sequences
from niso.experiments.pose.evaluation import Evaluation
from niso.experiments.pose.losses import PoseObjective
from niso.experiments.pose.pairs import draw_pairs
from niso.experiments.pose.predictors import BASELINES
from niso.experiments.pose.predictors.maps import frame_networks, on_maps
from niso.experiments.pose.predictors.predictor import Predictor, try_predictor
from niso.experiments.pose.presets import PRESETS, PoseConfig
from niso.experiments.pose.published import PUBLISHED
from niso.experiments.pose.rendered import open_shared
from niso.experiments.pose.sampling import PairSampling, check_groups
from niso.experiments.pose.sources import open_sequences, sources_unread
from niso.experiments.pose.split import split
from niso.methods import METHODS, methods_of
from niso.methods.evaluation.latents import LATENT_METRICS
from niso.methods.evaluation.operator import Operator, in_ascending_order, learned_operator
from niso.methods.evaluation.pairs import (
    EQUIVARIANCE_ERROR,
    EQUIVARIANCE_ERROR_CENTRED,
    RECONSTRUCTION_ERROR,
    PairEvaluation,
    evaluate_pairs,
)
from niso.methods.method import Method, Networks
from niso.random import EVALUATION_SEED
from niso.results import Curve, Metric, Result

BATCH = evaluation.BATCH
EXAMPLES = 256
"""Number of pairs that determine how the head's input is centred and scaled, and of those that orient the head."""
MAP_SKIPS = (0, 3, 9)
"""Frame skips at which maps are shown."""


@dataclass
class PoseResult(Result):
    """Metrics of the pose experiment, and what its figures show.

    Attributes:
        cases: trajectories and failures.
        pairs: predictions for random pairs of frames of held-out sequences; None where the method pre-trains nothing.
        maps: maps between the first frames of held-out sequences and later ones, by frame skip.
        map_text: what these maps are.
        operator: the learned operator; None where the method learns none.
        partial: frames behind passing objects, and what the method makes of them; None where the run is not about
            occlusion, or the method pre-trains nothing.
    """

    cases: cases.Cases
    pairs: PairEvaluation | None = None
    maps: dict[int, Float[Tensor, "_maps rank rank"]] = field(default_factory=dict)
    map_text: str = ""
    operator: Operator | None = None
    partial: PartialViews | None = None


class Pose(Experiment):
    """The pose experiment, see the module."""

    config: PoseConfig
    name = "pose"
    summary = (
        "The encoder is pre-trained on pairs of frames of the same video, without poses. It is then frozen, and a head "
        "learns to predict how the camera moved between two frames from nothing but the map between their latents. On "
        "videos that were not trained on, the predicted relative poses of neighbouring frames are composed to "
        "trajectories. The more frames are left out between neighbours, the larger the motions. Beside errors stand "
        "those of predictions that look at no frame: a straight line, the mean motion of the training sequences, no "
        "rotation, and straight ahead."
    )
    config_class = PoseConfig
    presets = PRESETS
    evaluation_settings = frozenset({"test_frames"})
    evaluation_facts = frozenset({"left_out"})
    pictures_of_curves = frozenset({"covered"})
    preset_notes: ClassVar[dict[str, str]] = {
        "quick": "rendered clips, 8×8 latent points: a minute on one core, and one to render; error 0.28 at skip 3",
        "small": "more clips, 64×64 pixels: 9 to 14 minutes on one core; error 0.23 at skip 3 (standing still: 1)",
        "paper": "the paper's text, 200,000 steps: for several GPUs; not run here",
        "released": "the released settings where they differ: for GPUs; not run here",
    }
    examples: ClassVar[dict[str, str]] = {
        "niso run pose": "clips that niso renders itself",
        "niso run pose --data-dir PREPARED --rendered 0.5": "your footage, beside rendered clips",
    }
    main_settings: ClassVar[dict[str, str]] = {
        "data-dir": "what `niso data prepare co3d` or `video` wrote, or CO3Dv2",
        "rendered": "share of pairs from clips that niso renders",
    }
    metrics: ClassVar[tuple[Metric, ...]] = (
        *evaluation.METRICS,
        *rooms.METRICS,
        replace(EQUIVARIANCE_ERROR, text=f"{EQUIVARIANCE_ERROR.text}, of random frames of held-out sequences"),
        EQUIVARIANCE_ERROR_CENTRED,
        *LATENT_METRICS,
        RECONSTRUCTION_ERROR,
        *evaluation.VALIDATION_METRICS,
        *passing.METRICS,
    )
    figures = "niso.experiments.pose.figures"
    model_metric = "ate_normalised_skip1"
    targets: ClassVar[dict[str, dict[str, str]]] = {
        "small": {f"ate_normalised_skip{skip}": "≤ 0.55 (niso)" for skip in (1, 3)},
    }
    published = PUBLISHED

    def build(self) -> None:
        config, data_dir = self.config, self.data_dir
        part_size(config.head.batch_size, config.head.accumulation)
        parts = process()[1] * config.head.accumulation
        if (config.head.batch_size // parts) % config.head_group:
            raise InputError(
                f"{parts} processes, or parts of a batch, would split groups of {config.head_group} pairs: choose "
                f"another --head.batch-size than {config.head.batch_size}"
            )
        if config.rendered and data_dir is None:
            raise InputError("--rendered mixes rendered clips with other data: give that by --data-dir")
        kind = self.kind(self.method_name)
        self.predictor = kind.build(config).to(self.device)  # before the data, which may take minutes to prepare
        self.predictor.precision = self.precision
        if self.method_name in BASELINES.foreign:
            try_predictor(self.predictor, config.size)
        self.method, group, share = self.predictor.method, self.predictor.group, kind.room_share(config)
        if config.confidence != "none" and self.method is None:
            raise InputError(
                f"--confidence weighs points where coefficients are computed, and {self.method_name} computes none: "
                "choose a method with an operator"
            )
        check_groups(config, self.method_name, group, share)
        self.frames = open_sequences(config, data_dir, self.device)
        self.split = split(self.frames, config, data_dir or "the rendered clips")
        self.announcement = about_sequences(self.frames, self.split, config.translation_scale)
        shared = open_shared(config, self.device) if share else None
        self.mark = config.confidence == "given"
        """Whether networks are told what is covered, by NaN."""
        objects = passing.passing(self.frames, self.seed, config.occlusion, self.mark) if config.occlusion else None
        self.sampling = PairSampling(config, self.seed, self.frames, self.split, objects, shared, share, group)

    @classmethod
    def methods(cls) -> tuple[str, ...]:
        return (*methods_of(grouped=True, maps=True), *BASELINES.found())

    @classmethod
    def kind(cls, method: str) -> type[Predictor]:
        """The predictor of a method: nothing else tells methods with maps from baselines."""
        return BASELINES.find(method) if method in BASELINES else on_maps(METHODS.find(method))

    @classmethod
    def unread(cls, config: PoseConfig, method: str, data_dir: Path | None) -> dict[str, str]:
        unread = super().unread(config, method, data_dir) | OF_FROZEN
        unread |= dict.fromkeys(("conv.image_size", "conv.image_channels"), "it is that of the frames, see --size")
        takes_rooms = cls.kind(method).room_share(config) > 0
        return unread | sources_unread(config, data_dir, takes_rooms) | config.views_unread()

    def facts(self) -> dict[str, Any]:
        """The split, and what could not be evaluated."""
        named = {f"{part}_sequences": names for part, names in self.split.names(self.frames).items()}
        size = self.config.size
        data = {"kind": "images", "shape": [3, size, size], **PIXELS}
        content = {"content": self.frames.content} if self.frames.content else {}
        return {**named, "left_out": self.split.evaluated.reasons, **content, "data": data}

    @classmethod
    def rebuild(
        cls, config: PoseConfig, facts: Mapping[str, Any], own: Own | None = None
    ) -> tuple[PoseConfig, Networks]:
        return config, frame_networks(config)

    # Training

    def phases(self) -> Iterator[Phase]:
        config = self.config
        yield from self.predictor.pretraining(self.sampling)
        self.predictor.complete(self.sampling.train_pairs(EXAMPLES))
        sampler, prepare = self.sampling.head(self._features, self.predictor.feature_size)
        objective = PoseObjective(self.predictor, config.head_group, config.translation_scale)
        yield Phase("head", objective, sampler, config.head, prepare)
        with self.precision():
            more = range(config.head.steps, config.head.steps + ceil(EXAMPLES / config.head.batch_size))
            self.predictor.orient(tuple(map(global_batch, sampler(step))) for step in more)

    def _features(self, frames: Tensor) -> Tensor:
        with self.precision():
            return self.predictor.features(frames)

    # Evaluation

    def held_out(self, count: int) -> Iterator[tuple[Tensor, Tensor]]:
        """Batches of `count` random pairs of frames of held-out sequences, the same for every run."""
        generator = torch.Generator().manual_seed(EVALUATION_SEED)
        pairs = draw_pairs(self.frames.lengths, self.split.test, count, self.config.head_skip, generator)
        for sequence, first, second in zip(*(part.split(BATCH) for part in pairs[:3]), strict=True):
            yield self.frames(sequence, first), self.frames(sequence, second)

    @torch.no_grad()
    def evaluate(self) -> PoseResult:
        self.predictor.eval()
        trivial = baselines.fitted(self.frames, self.split.footage)
        tested, validated = (
            evaluation.evaluate(self.predictor, self.frames, sequences, trivial, head_skip=self.config.head_skip)
            for sequences in (self.split.evaluated, self.split.validated)
        )
        result = PoseResult(
            tested.metrics | evaluation.validation_metrics(validated.metrics),
            cases.shown(self.frames, tested),
            curves={"ate_by_skip": error_curve(tested.metrics)},
            tensors={trajectories.FILE: trajectories.tensors(self.frames, tested.motions)},
        )
        if self.method is not None:
            self._add_maps(result, self.method)
        if self.config.occlusion is not None:
            self._add_covered(result, tested, validated)
        return result

    def _add_maps(self, result: PoseResult, method: Method) -> None:
        """Add what the method makes of pairs of frames to a result."""
        config = self.config
        pairs = evaluate_pairs(method, self.held_out(config.evaluation_pairs), cases.COUNT)
        result.metrics |= pairs.metrics | pairs.latents
        result.curves |= pairs.curves
        if self.data_dir is None or config.rendered or self.sampling.shared is not None:
            held_out, count, skip = rooms.open_rooms(config, self.device), config.evaluation_pairs, config.head_skip
            result.metrics |= rooms.between_rooms(method, held_out, count, skip, EVALUATION_SEED)
        result.pairs, result.maps = pairs, {skip: self.maps(method, skip) for skip in MAP_SKIPS}
        result.map_text, result.operator = method.map_text, learned_operator(method)
        result.partial = self.partial_views(method)

    def _add_covered(self, result: PoseResult, tested: Evaluation, validated: Evaluation) -> None:
        """Add errors behind passing objects to a result."""
        covered = passing.covering(self.frames, EVALUATION_SEED, partial_views.SHARES[1:], self.mark)
        parts = ((tested, self.split.evaluated, ""), (validated, self.split.validated, "_val"))
        for whole, sequences, suffix in parts:
            errors = passing.by_covered_share(self.predictor, whole.metrics, covered, sequences)
            result.metrics |= passing.covered_metrics(errors, suffix)
            if errors and not suffix:
                result.curves["ate_by_covered_share"] = errors["ate_normalised"]
                result.curves["rotation_error_by_covered_share"] = errors["rotation_error_deg"]

    def partial_views(self, method: Method) -> PartialViews | None:
        """A few frames of held-out sequences behind passing objects; None where the run is not about occlusion."""
        if self.config.occlusion is None:
            return None
        test = self.split.test
        sequence = test[torch.arange(partial_views.COUNT) % len(test)]
        frame = torch.arange(len(sequence)) * (self.frames.lengths[sequence] - 1) // len(sequence)
        (objects,) = passing.covering(self.frames, EVALUATION_SEED, [partial_views.SHOWN], self.mark)
        occluder = objects.occluder(self.device, sequence, frame)
        return partial_views.covered_views(method, self.frames(sequence, frame), occluder, self.mark)

    def maps(self, method: Method, skip: int) -> Float[Tensor, "maps rank rank"]:
        """Maps between the first frames of held-out sequences and later ones."""
        test = self.split.test
        sequence = test[torch.arange(cases.COUNT) % len(test)]
        second = (self.frames.lengths[sequence] - 1).clamp_max(skip + 1)
        a, b = (method.encode(self.frames(sequence, frame)) for frame in (torch.zeros_like(second), second))
        return in_ascending_order(method, method.solve(a, b))


def error_curve(metrics: dict[str, float]) -> Curve:
    """The normalised error of trajectories against the frame skip."""
    errors = evaluation.by_skip(metrics, "ate_normalised")
    counts = evaluation.by_skip(metrics, "sequences")
    return {
        "x": [float(skip) for skip in errors],
        "y": list(errors.values()),
        "count": [int(counts[skip]) for skip in errors],
        "x_label": "frames left out between neighbours",
        "y_label": "√(3n)·ATE",
    }
