"""Camera poses from video: relative motion read off the maps between latents of two frames (paper §5.3).

An encoder is pre-trained on pairs of frames of the same video, without poses, and frozen. A head then reads the
relative pose of two cameras off nothing but the map τ_Ω between their frames; such poses compose to trajectories.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from jaxtyping import Float
from torch import Tensor

from niso.collective import global_batch
from niso.errors import InputError
from niso.experiments.experiment import Curve, Experiment, Phase
from niso.experiments.pose import evaluation as pose_evaluation
from niso.experiments.pose import trajectories as pose_trajectories
from niso.experiments.pose.frames import RENDERED, TEST, TRAIN, open_sequences
from niso.experiments.pose.losses import Pairs, PoseObjective, draw_pairs
from niso.experiments.pose.predictors import (
    METHODS,
    Backbone,
    ConstantMotion,
    Predictor,
    encode,
    load_features,
    make_backbone,
    make_predictor,
    maps_between,
)
from niso.experiments.pose.presets import PRESETS, PoseConfig
from niso.experiments.pose.published import PUBLISHED
from niso.geometry import se3
from niso.methods import NeuralFourierTransform
from niso.methods.common import make_objective, pair_figures
from niso.random import local_part, process, step_seed
from niso.training.ahead import Ahead

if TYPE_CHECKING:
    from niso.report import Picture

BATCH = pose_evaluation.BATCH
EXAMPLES = 256
"""Pairs that the head's input is centred and scaled by."""
EVALUATION_SEED = 20_241_210
"""Of held-out pairs, the same for every run (the paper's conference date)."""


class Pose(Experiment):
    """The pose experiment, see the module."""

    name = "pose"
    summary = (
        "Pairs of frames of the same video are all that the encoder is pre-trained on, without poses. It is then "
        "frozen, and a head learns to tell how the camera moved between two frames from nothing but the map between "
        "their latents. On videos that were not trained on, the relative poses of neighbouring frames are composed to "
        "trajectories. The more frames are left out between neighbours, the larger the motions: a method that has "
        "learned nothing draws a straight line, whose error stands beside each figure."
    )
    config_class = PoseConfig
    presets = PRESETS
    methods: ClassVar[tuple[str, ...]] = tuple(METHODS)
    metric_descriptions: ClassVar[dict[str, str]] = {
        **pose_evaluation.metric_descriptions(),
        "equivariance_error": "‖τa − b‖² / ‖b‖² for random pairs of frames of held-out sequences (mean)",
        "equivariance_error_centred": "the same, relative to what is left of b without the mean over all frames",
        "reconstruction_error": "mean absolute error of D(τ E(ψ)) against Tψ for these pairs, black being −1 and "
        "white 1",
        "steps": "optimiser steps of both phases",
        "seconds": "seconds of training of both phases",
        "seconds_pretrain": "seconds of pre-training",
        "seconds_head": "seconds of the training of the head",
    }
    targets: ClassVar[dict[str, dict[str, str]]] = {
        "small": {f"ate_normalised_skip{skip}": "≤ 0.55 (niso)" for skip in (1, 3)},
    }
    published = PUBLISHED

    def __init__(self, config: PoseConfig, method: str, seed: int, data_dir: Path | None, device: torch.device) -> None:
        super().__init__(config, method, seed, data_dir, device)
        parts = process()[1] * config.head.accumulation
        if (config.head.batch_size // parts) % config.group:
            raise InputError(
                f"{parts} processes, or parts of a batch, would cut groups of {config.group} pairs apart: choose "
                f"another --head.batch-size than {config.head.batch_size}"
            )
        if config.rendered and data_dir is None:
            raise InputError("--rendered is a share of clips beside --data-dir: without that, there is nothing else")
        self.frames = open_sequences(config, data_dir, device)
        source = data_dir or "the rendered clips"
        self.train = self.frames.members(TRAIN, RENDERED)
        self.posed = self.frames.members(TRAIN, RENDERED, posed=True)
        if not len(self.posed):
            problem = "with camera poses" if len(self.train) else "of the split train"
            raise InputError(f"{source} has no sequence {problem}, which the head is trained on")
        self.train_weights, self.posed_weights = (
            self.frames.weights(members, config.rendered) for members in (self.train, self.posed)
        )
        self.test = self.frames.members(TEST)
        self.evaluated = pose_evaluation.evaluable(self.frames, self.test.tolist())
        if not any(self.evaluated.members.values()):
            first = next((f" ({name}: {why})" for name, why in self.evaluated.reasons.items()), "")
            raise InputError(f"{source} has no sequence of the split test that can be evaluated{first}")
        self.poses, self.starts = self.frames.all_poses()
        self.model: Backbone | None = None
        if METHODS[method].kind is not None:
            try:
                model, self.grid = make_backbone(config, METHODS[method])
            except ValueError as error:
                raise InputError(str(error)) from error
            self.model = model.to(device)
        self.pretrained = load_features(config, method)
        if self.pretrained is not None:
            self.pretrained.to(device)
        self.predictor: Predictor = ConstantMotion()
        self.figures = dict[str, float]()
        self.evaluation = pose_evaluation.Evaluation({}, {}, {})

    @classmethod
    def available(cls, config: PoseConfig) -> tuple[str, ...]:
        return tuple(name for name, own in METHODS.items() if not own.features or getattr(config, own.features))

    def facts(self) -> dict[str, Any]:
        """The split, and which sequences could not be evaluated at which skips."""
        names = self.frames.names
        own = self.frames.members(TRAIN)
        return {
            "train_sequences": [names[number] for number in own[~self.frames.mirrored[own]].tolist()],
            "test_sequences": [names[number] for number in self.test.tolist()],
            "left_out": self.evaluated.reasons,
        }

    # Training

    def phases(self) -> Iterator[Phase]:
        config, model = self.config, self.model
        if model is not None:
            operator = METHODS[self.method].operator
            objective = make_objective(config, model, multiplicity=operator)
            sampler = self._frames_of(self.pretraining_pairs, config.training.steps)
            yield Phase("pretrain", objective, lambda step: sampler(step)[:2], config.training)
            self.frames.dtype = next(model.parameters()).dtype
            if isinstance(model, NeuralFourierTransform) and config.nft_epochs:
                model.diagonalise(self._maps(config.nft_maps), config.nft_epochs, seed=self.seed)
        backbone = None if model is None else (model, self._examples(EXAMPLES))
        self.predictor = make_predictor(config, self.method, backbone, self.pretrained).to(self.device)
        objective, sampler = PoseObjective(self.predictor, config.group, config.translation_scale), self._head_sampler()
        yield Phase("head", objective, sampler, config.head)
        self.predictor.orient(*map(global_batch, sampler(config.head.steps)))

    def pretraining_pairs(self, step: int) -> Pairs:
        """Pairs of frames: this process's part of a step's batch."""
        generator = torch.Generator().manual_seed(step_seed(self.seed, step, "pairs"))
        size, (skip, signed) = self.config.training.batch_size, (self.config.skip, self.config.signed)
        lengths, weights = self.frames.lengths, self.train_weights
        drawn = draw_pairs(lengths, self.train, size, skip, generator, signed=signed, identical=signed, weights=weights)
        return Pairs(*map(local_part, drawn))

    def head_pairs(self, step: int) -> Pairs:
        """Pairs of frames with known poses, in groups of one sequence: this process's part of a step's batch."""
        config = self.config
        generator = torch.Generator().manual_seed(step_seed(self.seed, step, "posed pairs"))
        size, skip = config.head.batch_size, config.head_skip
        lengths, members, weights = self.frames.lengths, self.posed, self.posed_weights
        drawn = draw_pairs(lengths, members, size, skip, generator, config.group, config.backwards, weights=weights)
        return Pairs(*map(local_part, drawn))

    def motions(self, pairs: Pairs) -> Float[Tensor, "batch 4 4"]:
        """True poses of the second frames as the first ones see them."""
        start = self.starts[pairs.sequence]
        motions = se3.relative(self.poses[start + pairs.first], self.poses[start + pairs.second])
        return motions.float().to(self.device)

    def _frames_of(self, pairs: Callable[[int], Pairs], steps: int) -> Callable[[int], tuple[Tensor, ...]]:
        """Both frames and the motions of a step's pairs."""

        def read(step: int) -> tuple[Tensor, Tensor, Pairs]:
            drawn = pairs(step)
            views = (self.frames.read(drawn.sequence, frame) for frame in drawn[1:])
            return next(views), next(views), drawn

        source = read if self.frames.resident is not None else Ahead(read, steps)

        def sample(step: int) -> tuple[Tensor, ...]:
            first, second, drawn = source(step)
            return self.frames.scaled(first), self.frames.scaled(second), self.motions(drawn)

        return sample

    def _head_sampler(self) -> Callable[[int], tuple[Tensor, ...]]:
        """Features of both frames, and motions. What a frozen network makes of frames is computed once, if it fits."""
        predictor, frames = self.predictor, self.frames
        source = self._frames_of(self.head_pairs, self.config.head.steps)
        if predictor.feature_size is None:
            return source
        stored = predictor.feature_size * 4 * int(frames.lengths[self.posed].sum())
        if frames.resident is None or stored > self.config.memory * 1e9:

            def encoded(step: int) -> tuple[Tensor, ...]:
                first, second, motions = source(step)
                return *self._features(torch.cat([first, second])).chunk(2), motions

            return encoded
        place = torch.zeros(len(frames.lengths), dtype=torch.long)
        lengths = frames.lengths[self.posed]
        place[self.posed] = lengths.cumsum(0) - lengths
        features = cache(self._all_features)  # in the first step: not where the head is trained already

        def looked_up(step: int) -> tuple[Tensor, ...]:
            pairs = self.head_pairs(step)
            start = place[pairs.sequence]
            first, second = (features()[(start + frame).to(self.device)] for frame in pairs[1:])
            return first, second, self.motions(pairs)

        return looked_up

    def _all_features(self) -> Tensor:
        lengths = self.frames.lengths[self.posed]
        sequence = self.posed.repeat_interleave(lengths)
        frame = torch.cat([torch.arange(length) for length in lengths.tolist()])
        parts = zip(sequence.split(BATCH), frame.split(BATCH), strict=True)
        return torch.cat([self._features(self.frames(*part)) for part in parts])

    def _features(self, frames: Tensor) -> Tensor:
        with self.autocast():
            return self.predictor.features(frames)

    def _examples(self, count: int) -> tuple[Tensor, Tensor]:
        """Latents of random pairs of training frames, the same in all processes."""
        assert self.model is not None
        self.model.eval()
        generator = torch.Generator().manual_seed(step_seed(self.seed, 0, "maps"))
        pairs = draw_pairs(
            self.frames.lengths,
            self.train,
            count,
            self.config.head_skip,
            generator,
            signed=self.config.backwards,
            weights=self.train_weights,
        )
        with self.autocast():
            first, second = (
                [
                    encode(self.model, self.frames(*part))
                    for part in zip(pairs.sequence.split(BATCH), frame.split(BATCH), strict=True)
                ]
                for frame in pairs[1:]
            )
        return torch.cat(first), torch.cat(second)

    @torch.no_grad()
    def _maps(self, count: int) -> Float[Tensor, "count rank rank"]:
        assert self.model is not None
        return maps_between(self.model, *self._examples(count))

    # Evaluation

    def held_out(self, count: int) -> Iterator[tuple[Tensor, Tensor]]:
        """Batches of `count` random pairs of frames of held-out sequences, the same for every run."""
        generator = torch.Generator().manual_seed(EVALUATION_SEED)
        pairs = draw_pairs(self.frames.lengths, self.test, count, self.config.head_skip, generator)
        for sequence, first, second in zip(*(part.split(BATCH) for part in pairs), strict=True):
            yield self.frames(sequence, first), self.frames(sequence, second)

    @torch.no_grad()
    def evaluate(self) -> dict[str, float]:
        self.predictor.eval()
        self.evaluation = pose_evaluation.evaluate(self.predictor, self.frames, self.evaluated.members)
        self.figures = dict(self.evaluation.figures)
        if self.model is not None:
            self.figures |= pair_figures(self.model, self.held_out(self.config.evaluation_pairs))
        return dict(self.figures)

    def curves(self) -> dict[str, Curve]:
        """The error of trajectories against the frame skip."""
        errors = pose_evaluation.by_skip(self.figures, "ate_normalised")
        counts = pose_evaluation.by_skip(self.figures, "sequences")
        return {
            "ate_by_skip": {
                "x": [float(skip) for skip in errors],
                "y": list(errors.values()),
                "count": [int(counts[skip]) for skip in errors],
                "x_label": "frames left out between neighbours",
                "y_label": "√(3n)·ATE",
            }
        }

    def tensors(self) -> dict[str, dict[str, Tensor]]:
        return {pose_trajectories.FILE: pose_trajectories.tensors(self)}

    def pictures(self) -> list[Picture]:
        from niso.experiments.pose.figures import pictures

        return pictures(self)
