"""Camera poses from video: relative motions are predicted from the maps between the latents of two frames (paper §5.3).

An encoder is pre-trained on pairs of frames of the same video, without poses, and frozen. A head then predicts the
relative pose of two cameras from nothing but the map τ_Ω between their frames; such poses compose to trajectories.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from math import ceil
from pathlib import Path
from typing import Any, ClassVar

import torch
from jaxtyping import Float
from torch import Tensor, nn

from niso.collective import global_batch
from niso.config import SPECTRAL
from niso.data.video.sequences import TEST, TRAIN
from niso.errors import InputError
from niso.experiments import partial_views
from niso.experiments.experiment import PIXELS, Experiment, Own, Phase, check_batch
from niso.experiments.partial_views import PartialViews
from niso.experiments.pose import baselines, cases, evaluation, passing, shared, trajectories
from niso.experiments.pose.frames import RENDERED, Frames, open_sequences, open_shared, sources_unread
from niso.experiments.pose.losses import (
    CompositionObjective,
    Pairs,
    PoseObjective,
    draw_pairs,
    draw_shared,
    draw_third,
)
from niso.experiments.pose.passing import Passing
from niso.experiments.pose.predictors import BASELINES
from niso.experiments.pose.predictors.maps import MapPredictor
from niso.experiments.pose.predictors.predictor import Predictor
from niso.experiments.pose.presets import PRESETS, PoseConfig
from niso.experiments.pose.published import PUBLISHED
from niso.geometry import se3
from niso.methods import METHODS, methods_of
from niso.methods.evaluation import (
    EQUIVARIANCE_ERROR,
    EQUIVARIANCE_ERROR_CENTRED,
    LATENT_METRICS,
    RECONSTRUCTION_ERROR,
    Operator,
    PairEvaluation,
    evaluate_pairs,
    in_ascending_order,
    learned_operator,
)
from niso.methods.method import Method, Networks
from niso.networks.occlusion import PassingOcclusion
from niso.random import EVALUATION_SEED, check_parts, process, step_seed
from niso.results import Curve, Metric, Result
from niso.training.ahead import Ahead

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
    pairs: PairEvaluation | None
    maps: dict[int, Float[Tensor, "_maps rank rank"]]
    map_text: str
    operator: Operator | None
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
    preset_notes: ClassVar[dict[str, str]] = {
        "quick": "rendered clips, 8×8 latent points: a minute on one core, and one to render; error 0.28 at skip 3",
        "small": "more clips, 64×64 pixels: 4 to 14 minutes on one core; error 0.23 at skip 3 (standing still: 1)",
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
        *shared.METRICS,
        replace(EQUIVARIANCE_ERROR, text=f"{EQUIVARIANCE_ERROR.text}, of random frames of held-out sequences"),
        EQUIVARIANCE_ERROR_CENTRED,
        *LATENT_METRICS,
        RECONSTRUCTION_ERROR,
        *evaluation.VALIDATION_METRICS,
        *passing.METRICS,
    )
    figures = "niso.experiments.pose.figures"
    keeps_head = True
    model_metric = "ate_normalised_skip1"
    targets: ClassVar[dict[str, dict[str, str]]] = {
        "small": {f"ate_normalised_skip{skip}": "≤ 0.55 (niso)" for skip in (1, 3)},
    }
    published = PUBLISHED

    def build(self) -> None:
        config, data_dir = self.config, self.data_dir
        check_parts(config.head.batch_size, config.head.accumulation)
        parts = process()[1] * config.head.accumulation
        if (config.head.batch_size // parts) % config.head_group:
            raise InputError(
                f"{parts} processes, or parts of a batch, would split groups of {config.head_group} pairs: choose "
                f"another --head.batch-size than {config.head.batch_size}"
            )
        if config.rendered and data_dir is None:
            raise InputError("--rendered mixes rendered clips with other data: give that by --data-dir")
        self.method: Method | None = None
        self.predictor: Predictor
        if self.method_name in METHODS:  # before the data, which may take minutes to prepare
            self.method = self.make_method(lambda: frame_networks(config))
            check_batch(self.method, config.training.batch_size, config.training.accumulation)
            if config.occlusion:
                check_batch(self.method, config.completion.batch_size, config.completion.accumulation)
        elif config.confidence != "none":
            raise InputError(
                f"--confidence weighs points where coefficients are computed, and {self.method_name} computes none: "
                "choose a method with an operator"
            )
        else:
            self.predictor = BASELINES.find(self.method_name).build(config).to(self.device)
        self._check_shared()
        self.frames = open_sequences(config, data_dir, self.device)
        self._split(data_dir or "the rendered clips")
        self.poses, self.starts = self.frames.all_poses()
        self.shared: Frames | None = None
        """Rendered clips to pre-train on in which rooms share motions."""
        if self.method is not None and self.share:
            self.shared = open_shared(config, self.device)
        self.mark = config.confidence == "given"
        """Whether networks are told what is covered, by NaN."""
        self.passing: Passing | None = None
        """Frames that heads are trained on, where objects pass in front of the cameras."""
        if config.occlusion:
            self.passing = passing.passing(self.frames, self.seed, config.occlusion, self.mark)

    @classmethod
    def methods(cls) -> tuple[str, ...]:
        return (*methods_of(grouped=True, maps=True), *BASELINES)

    @classmethod
    def available(cls, config: PoseConfig, data_dir: Path | None = None) -> tuple[str, ...]:
        return tuple(name for name in cls.methods() if name not in BASELINES or BASELINES.find(name).available(config))

    @classmethod
    def reads(cls, method: str) -> frozenset[str]:
        if method in BASELINES:
            return BASELINES.find(method).reads
        shared = {"shared", "shared_clips", "shared_motions", "rooms", "composition"}
        return super().reads(method) | shared | {"completion", "conv", "mlp", "standardise", "skip", "signed"}

    @classmethod
    def unread(cls, config: PoseConfig, method: str, data_dir: Path | None) -> dict[str, str]:
        unread = super().unread(config, method, data_dir)
        unread |= {f"head.{name}": "the head is trained on frozen networks" for name in SPECTRAL}
        unread |= dict.fromkeys(("conv.image_size", "conv.image_channels"), "it is that of the frames, see --size")
        if method in METHODS and not share(config, method):
            nothing = "--shared is 0, and pre-training takes none of these clips"
            unread |= dict.fromkeys(("shared_clips", "shared_motions", "rooms"), nothing)
        return unread | sources_unread(config, data_dir) | config.views_unread()

    @property
    def share(self) -> float:
        """Share of the examples of pre-training in which rooms share motions."""
        return 0.0 if self.method is None else share(self.config, self.method_name)

    @property
    def group(self) -> int:
        """Consecutive pairs of pre-training that share a motion."""
        return 1 if self.method is None else self.method.group

    def _check_shared(self) -> None:
        """Check that batches of pre-training can be cut into groups.

        Raises:
            InputError: they cannot, or there is nothing to draw them from.
        """
        if self.group > 1 and not self.share:
            raise InputError(f"{self.method_name} needs groups: choose another method, or --shared above 0")
        if not self.share:
            return
        clips, rooms = self.config.shared_clips, self.config.rooms
        if rooms < 2:  # a single room would repeat the clips that heads are trained and validated on
            raise InputError(f"--rooms must be at least 2, got {rooms}: clips are shared by rooms under one motion")
        if clips % rooms:
            raise InputError(f"--shared-clips ({clips}) must be a multiple of --rooms ({rooms})")
        if self.group > rooms:
            raise InputError(f"--group ({self.group}) must be at most the number of --rooms ({rooms})")
        size, parts = self.config.training.batch_size, process()[1] * self.config.training.accumulation
        shared = round(size * self.share)  # shares such as 0.07 of 100 are whole up to rounding
        uneven = abs(shared - size * self.share) > 1e-6 or shared % (parts * self.group)
        if uneven:
            raise InputError(
                f"a batch of {size} pairs in {parts} part{'s' * (parts > 1)}, {self.share:g} of them in groups of "
                f"{self.group}, does not come out even: choose another --batch-size, --shared or --group"
            )

    def _split(self, source: object) -> None:
        """Choose the sequences to train, validate and test on.

        Validation sequences are like those to test on: rendered clips only where no other sequence has poses.

        Raises:
            InputError: there are none to train on, or none to test on.
        """
        frames, config = self.frames, self.config
        posed = frames.members(TRAIN, RENDERED, posed=True)
        footage = frames.members(TRAIN, posed=True)
        kept = frames.spread(footage if len(footage) else posed, config.validation)
        self.validated = evaluation.evaluable(frames, kept.tolist())
        validation = torch.tensor(self.validated.sequences, dtype=torch.long)
        self.train, self.posed = (
            frames.without(members, validation) for members in (frames.members(TRAIN, RENDERED), posed)
        )
        if not len(self.posed):
            problem = "with camera poses" if len(self.train) else "of the split train"
            raise InputError(f"{source} has no sequence {problem}, which the head is trained on")
        self.train_weights, self.posed_weights = (
            frames.weights(members, config.rendered) for members in (self.train, self.posed)
        )
        self.test = frames.members(TEST)
        self.evaluated = evaluation.evaluable(frames, self.test.tolist())
        if not any(self.evaluated.members.values()):
            first = next((f" ({name}: {why})" for name, why in self.evaluated.reasons.items()), "")
            raise InputError(f"{source} has no sequence of the split test that can be evaluated{first}")

    def facts(self) -> dict[str, Any]:
        """The split without rendered clips to train on and mirrored sequences, and what could not be evaluated."""
        frames, validation = self.frames, self.validated.sequences
        train = [n for n in self.train.tolist() if frames.splits[n] == TRAIN and not frames.mirrored[n]]
        parts = {"train": train, "validation": validation, "test": self.test.tolist()}
        named = {f"{part}_sequences": [frames.names[number] for number in members] for part, members in parts.items()}
        size = self.config.size
        data = {"kind": "images", "shape": [3, size, size], **PIXELS}
        return {**named, "left_out": self.evaluated.reasons, "data": data}

    @classmethod
    def rebuild(
        cls, config: PoseConfig, facts: Mapping[str, Any], own: Own | None = None
    ) -> tuple[PoseConfig, Networks]:
        return config, frame_networks(config)

    # Training

    def phases(self) -> Iterator[Phase]:
        config, method = self.config, self.method
        if method is not None:
            objective: nn.Module = method.objective()
            if config.composition:
                objective = CompositionObjective(objective, method, config.composition)
            yield Phase("pretrain", objective, self._pretraining_sampler(), config.training)
            method.after_pretraining(self.train_pairs, self.seed)
            if config.occlusion:
                occlusion = PassingOcclusion(config.occlusion, self.mark, config.skip + 1)
                yield Phase("completion", method.completion(occlusion), self._completion_sampler(), config.completion)
            self.predictor = MapPredictor(config, method, self._latents(EXAMPLES)).to(self.device)
        sampler = self._head_sampler()
        objective = PoseObjective(self.predictor, config.head_group, config.translation_scale)
        yield Phase("head", objective, sampler, config.head)
        with self.precision():
            more = range(config.head.steps, config.head.steps + ceil(EXAMPLES / config.head.batch_size))
            self.predictor.orient(tuple(map(global_batch, sampler(step))) for step in more)

    def pretraining_pairs(self, step: int, size: int | None = None, repeated: int = 1) -> Pairs:
        """Random pairs of training frames for a step of pre-training, over all processes.

        Args:
            size: how many; a whole batch by default.
            repeated: so many consecutive ones are the same pair: a group by itself, whose map is the pair's own.
        """
        config, size = self.config, self.config.training.batch_size if size is None else size
        generator = torch.Generator().manual_seed(step_seed(self.seed, step, "pairs"))
        skip, signed, weights = config.skip, config.signed, self.train_weights
        drawn = draw_pairs(
            self.frames.lengths,
            self.train,
            size // repeated,
            skip,
            generator,
            signed=signed,
            identical=signed,
            weights=weights,
        )
        return Pairs(*(part.repeat_interleave(repeated) for part in (drawn.sequence, *drawn.frames)))

    def shared_pairs(self, step: int, size: int) -> Pairs:
        """Random pairs of frames of the clips that share motions, in groups, over all processes."""
        assert self.shared is not None
        config, lengths = self.config, self.shared.lengths
        generator = torch.Generator().manual_seed(step_seed(self.seed, step, "shared motions"))
        return draw_shared(
            lengths, config.rooms, size, config.skip, generator, self.group, config.signed, identical=config.signed
        )

    def head_pairs(self, step: int) -> Pairs:
        """Random pairs of frames with poses, in groups of one sequence: this process's part of a step's batch.

        Pairs of the steps after the last one, which orient the head, run forwards in time, as those of an evaluation.
        """
        config = self.config
        signed = config.backwards and step < config.head.steps
        generator = torch.Generator().manual_seed(step_seed(self.seed, step, "posed pairs"))
        size, skip = config.head.batch_size, config.head_skip
        lengths, members, weights = self.frames.lengths, self.posed, self.posed_weights
        drawn = draw_pairs(lengths, members, size, skip, generator, config.head_group, signed, weights=weights)
        return drawn.local()

    def motions(self, pairs: Pairs) -> Float[Tensor, "batch 4 4"]:
        """True poses of the second cameras of pairs in the coordinates of the first."""
        start = self.starts[pairs.sequence]
        motions = se3.relative(self.poses[start + pairs.first], self.poses[start + pairs.second])
        return motions.float().to(self.device, non_blocking=True)

    def _pretraining_sampler(self) -> Callable[[int], tuple[Tensor, ...]]:
        """A sampler of both frames of pairs, and of a third one where maps are to compose: groups first."""
        config, group, size = self.config, self.group, self.config.training.batch_size
        shared = round(self.share * size)

        def local(step: int, pairs: Pairs, frames: Frames) -> Pairs:
            if config.composition:
                generator = torch.Generator().manual_seed(step_seed(self.seed, step, "third frames"))
                pairs = pairs._replace(third=draw_third(pairs, frames.lengths, config.skip, generator, group))
            return pairs.local()

        def grouped(step: int) -> Pairs:
            return local(step, self.shared_pairs(step, shared), rooms)

        def single(step: int) -> Pairs:
            return local(step, self.pretraining_pairs(step, size - shared, group), self.frames)

        rooms, steps = self.shared or self.frames, config.training.steps
        sources = [self._frames_of(grouped, steps, frames=rooms)] if shared else []
        if shared < size:
            sources.append(self._frames_of(single, steps))
        return lambda step: tuple(map(torch.cat, zip(*(source(step)[0] for source in sources), strict=True)))

    def _completion_sampler(self) -> Callable[[int], tuple[Tensor, ...]]:
        """A sampler of both frames of `pretraining_pairs`."""
        optimisation = self.config.completion
        frames = self._frames_of(
            lambda step: self.pretraining_pairs(step, optimisation.batch_size).local(), optimisation.steps
        )
        return lambda step: frames(step)[0]

    def _frames_of(
        self,
        pairs: Callable[[int], Pairs],
        steps: int,
        objects: Passing | None = None,
        frames: Frames | None = None,
    ) -> Callable[[int], tuple[tuple[Tensor, ...], Pairs]]:
        """A sampler of the frames of a step's pairs, and of the pairs themselves.

        Args:
            steps: number of steps; frames that are not on the device are read ahead of them.
            objects: what is in front of the frames.
            frames: where they are from, in place of the sequences that heads are trained on.
        """
        known = frames or self.frames

        def read(step: int) -> tuple[tuple[Tensor, ...], Pairs]:
            drawn = pairs(step)
            return tuple(known.read(drawn.sequence, frame) for frame in drawn.frames), drawn

        source = read if known.resident is not None else Ahead(read, steps)

        def sample(step: int) -> tuple[tuple[Tensor, ...], Pairs]:
            images, drawn = source(step)
            scaled = tuple(map(known.scaled, images))
            if objects is not None:
                both = zip(scaled, drawn.frames, strict=True)
                scaled = tuple(objects.over(part, drawn.sequence, frame) for part, frame in both)
            return scaled, drawn

        return sample

    def _head_sampler(self) -> Callable[[int], tuple[Tensor, ...]]:
        """A sampler of features of both frames, and motions.

        Features of frozen networks are computed once, if they fit into memory.
        """

        predictor, frames = self.predictor, self.frames
        source = self._frames_of(self.head_pairs, self.config.head.steps, self.passing)
        if predictor.feature_size is None:

            def raw(step: int) -> tuple[Tensor, ...]:
                frames, drawn = source(step)
                return *frames, self.motions(drawn)

            return raw
        stored = predictor.feature_size * 4 * int(frames.lengths[self.posed].sum())
        if frames.resident is None or stored > self.config.memory * 1e9:

            def encoded(step: int) -> tuple[Tensor, ...]:
                frames, drawn = source(step)
                return *self._features(torch.cat(frames)).chunk(2), self.motions(drawn)

            return encoded
        place = torch.zeros(len(frames.lengths), dtype=torch.long)
        lengths = frames.lengths[self.posed]
        place[self.posed] = lengths.cumsum(0) - lengths
        features = cache(self._all_features)  # computed in the first step, and not at all if the head is trained

        def stored_features(step: int) -> tuple[Tensor, ...]:
            pairs = self.head_pairs(step)
            start = place[pairs.sequence]
            places = ((start + frame).to(self.device, non_blocking=True) for frame in pairs.frames)
            first, second = (features()[place] for place in places)
            return first, second, self.motions(pairs)

        return stored_features

    def _all_features(self) -> Tensor:
        """Features of all frames of sequences with poses, one after another."""
        lengths = self.frames.lengths[self.posed]
        sequence = self.posed.repeat_interleave(lengths)
        frame = torch.cat([torch.arange(length) for length in lengths.tolist()])
        parts = zip(sequence.split(BATCH), frame.split(BATCH), strict=True)
        return torch.cat([self._features(self.see(*part)) for part in parts])

    @property
    def see(self) -> evaluation.See:
        """Frames that heads are trained on."""
        return self.passing or self.frames

    def _features(self, frames: Tensor) -> Tensor:
        with self.precision():
            return self.predictor.features(frames)

    def train_pairs(self, count: int) -> Iterator[tuple[Tensor, Tensor]]:
        """Random pairs of training frames as heads are trained on them, the same in all processes."""
        generator = torch.Generator().manual_seed(step_seed(self.seed, 0, "maps"))
        lengths, skip = self.frames.lengths, self.config.head_skip
        signed, weights = self.config.backwards, self.train_weights
        drawn = draw_pairs(lengths, self.train, count, skip, generator, signed=signed, weights=weights)
        for sequence, first, second in zip(*(part.split(BATCH) for part in drawn[:3]), strict=True):
            yield self.see(sequence, first), self.see(sequence, second)

    @torch.no_grad()
    def _latents(self, count: int) -> tuple[Tensor, Tensor]:
        """Coefficients of random pairs of training frames."""
        assert self.method is not None
        self.method.model.eval()
        first, second = zip(*(map(self.method.encode, pair) for pair in self.train_pairs(count)), strict=True)
        return torch.cat(first), torch.cat(second)

    # Evaluation

    def held_out(self, count: int) -> Iterator[tuple[Tensor, Tensor]]:
        """Batches of `count` random pairs of frames of held-out sequences, the same for every run."""
        generator = torch.Generator().manual_seed(EVALUATION_SEED)
        pairs = draw_pairs(self.frames.lengths, self.test, count, self.config.head_skip, generator)
        for sequence, first, second in zip(*(part.split(BATCH) for part in pairs[:3]), strict=True):
            yield self.frames(sequence, first), self.frames(sequence, second)

    @torch.no_grad()
    def evaluate(self) -> PoseResult:
        config = self.config
        self.predictor.eval()
        trivial = baselines.fitted(self.frames, self.posed)
        tested, validated = (
            evaluation.evaluate(
                self.predictor, self.frames, sequences, self.precision, trivial, head_skip=config.head_skip
            )
            for sequences in (self.evaluated, self.validated)
        )
        metrics = tested.metrics | evaluation.validation_metrics(validated.metrics)
        pairs, method = None, self.method
        if method is not None:
            pairs = evaluate_pairs(method, self.held_out(config.evaluation_pairs), cases.COUNT)
            metrics |= pairs.metrics | pairs.latents
            if self.data_dir is None or config.rendered or self.shared is not None:
                rooms = shared.open_rooms(config, self.device)
                count, skip = config.evaluation_pairs, config.head_skip
                metrics |= shared.between_rooms(method, rooms, count, skip, EVALUATION_SEED)
        curves = {"ate_by_skip": error_curve(metrics), **(pairs.curves if pairs else {})}
        if config.occlusion is not None:
            covered = passing.covering(self.frames, EVALUATION_SEED, partial_views.SHARES[1:], self.mark)
            parts = ((tested, self.evaluated, ""), (validated, self.validated, "_val"))
            for whole, sequences, suffix in parts:
                errors = passing.by_covered_share(self.predictor, whole.metrics, covered, sequences, self.precision)
                metrics |= passing.covered_metrics(errors, suffix)
                if errors and not suffix:
                    curves["ate_by_covered_share"] = errors["ate_normalised"]
                    curves["rotation_error_by_covered_share"] = errors["rotation_error_deg"]
        return PoseResult(
            metrics,
            cases.shown(self.frames, tested),
            pairs,
            {} if method is None else {skip: self.maps(method, skip) for skip in MAP_SKIPS},
            "" if method is None else method.map_text,
            None if method is None else learned_operator(method),
            None if method is None else self.partial_views(method),
            curves=curves,
            tensors={trajectories.FILE: trajectories.tensors(self.frames, tested.motions)},
        )

    def partial_views(self, method: Method) -> PartialViews | None:
        """A few frames of held-out sequences behind passing objects; None where the run is not about occlusion."""
        if self.config.occlusion is None:
            return None
        sequence = self.test[torch.arange(partial_views.COUNT) % len(self.test)]
        frame = torch.arange(len(sequence)) * (self.frames.lengths[sequence] - 1) // len(sequence)
        (objects,) = passing.covering(self.frames, EVALUATION_SEED, [partial_views.SHOWN], self.mark)
        occluder = objects.occluder(self.device, sequence, frame)
        return partial_views.partial_views(method, self.frames(sequence, frame), occluder, self.mark)

    def maps(self, method: Method, skip: int) -> Float[Tensor, "maps rank rank"]:
        """Maps between the first frames of held-out sequences and later ones."""
        sequence = self.test[torch.arange(cases.COUNT) % len(self.test)]
        second = (self.frames.lengths[sequence] - 1).clamp_max(skip + 1)
        a, b = (method.encode(self.frames(sequence, frame)) for frame in (torch.zeros_like(second), second))
        return in_ascending_order(method, method.solve(a, b))


def share(config: PoseConfig, method: str) -> float:
    """Share of the examples of pre-training in which rooms share motions."""
    return float(METHODS.find(method).grouped) if config.shared is None else config.shared


def frame_networks(config: PoseConfig) -> Networks:
    """Untrained networks for frames of the configured size.

    Raises:
        ValueError: the networks do not fit frames of this size.
    """
    networks = Networks.convolutional(config.conv, (config.size, config.size), 3)
    return networks.for_partial_views(config.confidence, 3)


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
