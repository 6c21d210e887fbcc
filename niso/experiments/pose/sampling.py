"""What a run trains on: random pairs of frames for every step of pre-training and of the head."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache

import torch
from jaxtyping import Float
from torch import Tensor

from niso.collective import process
from niso.errors import InputError
from niso.experiments.pose.evaluation import BATCH, See
from niso.experiments.pose.frames import Frames
from niso.experiments.pose.pairs import Pairs, draw_pairs, draw_shared, draw_third
from niso.experiments.pose.passing import Passing
from niso.experiments.pose.presets import PoseConfig
from niso.experiments.pose.split import Split
from niso.geometry import se3
from niso.random import step_generator
from niso.training.ahead import Ahead
from niso.training.loop import Sampler


def check_groups(config: PoseConfig, method: str, group: int, share: float) -> None:
    """Check that batches of pre-training can be cut into groups.

    Args:
        group, share: see `PairSampling`.

    Raises:
        InputError: they cannot, or there is nothing to draw them from.
    """
    if group > 1 and not share:
        raise InputError(f"{method} needs groups: choose another method, or --shared above 0")
    if not share:
        return
    clips, rooms = config.shared_clips, config.rooms
    if rooms < 2:  # a single room would repeat the clips that heads are trained and validated on
        raise InputError(f"--rooms must be at least 2, got {rooms}: clips are shared by rooms under one motion")
    if clips % rooms:
        raise InputError(f"--shared-clips ({clips}) must be a multiple of --rooms ({rooms})")
    if group > rooms:
        raise InputError(f"--group ({group}) must be at most the number of --rooms ({rooms})")
    size, parts = config.training.batch_size, process()[1] * config.training.accumulation
    shared = round(size * share)  # shares such as 0.07 of 100 are whole up to rounding
    uneven = abs(shared - size * share) > 1e-6 or shared % (parts * group)
    if uneven:
        raise InputError(
            f"a batch of {size} pairs in {parts} part{'s' * (parts > 1)}, {share:g} of them in groups of "
            f"{group}, does not come out even: choose another --batch-size, --shared or --group"
        )


class PairSampling:
    """Random pairs of frames for every step, and samplers of what networks are trained on.

    Args:
        frames: all sequences.
        split: those to train on.
        passing: the same behind objects that pass in front of the cameras, as heads see them; None without objects.
        shared: rendered clips in which rooms share motions; None where pre-training takes none.
        share: share of the examples of pre-training that are of these clips.
        group: number of consecutive pairs of pre-training that share a motion.
    """

    def __init__(
        self,
        config: PoseConfig,
        seed: int,
        frames: Frames,
        split: Split,
        passing: Passing | None,
        shared: Frames | None,
        share: float,
        group: int,
    ) -> None:
        self.config, self.seed, self.frames, self.split, self.passing = config, seed, frames, split, passing
        self.shared, self.share, self.group = shared, share, group
        self.poses, self.starts = frames.all_poses()

    @property
    def see(self) -> See:
        """Frames that heads are trained on."""
        return self.passing or self.frames

    # Pairs of a step

    def pretraining_pairs(self, step: int, size: int, repeated: int = 1, stream: str = "pairs") -> Pairs:
        """Random pairs of training frames for a step of pre-training, over all processes.

        Args:
            size: how many.
            repeated: so many consecutive ones are the same pair: a group by itself, whose map is the pair's own.
            stream: of the random numbers, see `step_seed`.
        """
        config = self.config
        drawn = draw_pairs(
            self.frames.lengths,
            self.split.train,
            size // repeated,
            config.skip,
            step_generator(self.seed, step, stream),
            signed=config.signed,
            identical=config.signed,
            weights=self.split.train_weights,
        )
        return Pairs(*(part.repeat_interleave(repeated) for part in (drawn.sequence, *drawn.frames)))

    def shared_pairs(self, step: int, size: int) -> Pairs:
        """Random pairs of frames of the clips that share motions, in groups, over all processes."""
        assert self.shared is not None
        config, lengths, generator = self.config, self.shared.lengths, step_generator(self.seed, step, "shared motions")
        return draw_shared(
            lengths, config.rooms, size, config.skip, generator, self.group, config.signed, identical=config.signed
        )

    def head_pairs(self, step: int) -> Pairs:
        """Random pairs of frames with poses, in groups of one sequence: this process's part of a step's batch.

        Pairs of the steps after the last one, which orient the head, run forwards in time, as those of an evaluation.
        """
        config = self.config
        return draw_pairs(
            self.frames.lengths,
            self.split.posed,
            config.head.batch_size,
            config.head_skip,
            step_generator(self.seed, step, "posed pairs"),
            config.head_group,
            signed=config.backwards and step < config.head.steps,
            weights=self.split.posed_weights,
        ).local()

    def motions(self, pairs: Pairs) -> Float[Tensor, "batch 4 4"]:
        """True poses of the second cameras of pairs in the coordinates of the first."""
        start = self.starts[pairs.sequence]
        motions = se3.relative(self.poses[start + pairs.first], self.poses[start + pairs.second])
        return motions.float().to(self.frames.device, non_blocking=True)

    def train_pairs(self, count: int) -> Iterator[tuple[Tensor, Tensor]]:
        """Random pairs of training frames as heads are trained on them, the same in all processes."""
        config = self.config
        drawn = draw_pairs(
            self.frames.lengths,
            self.split.train,
            count,
            config.head_skip,
            step_generator(self.seed, 0, "maps"),
            signed=config.backwards,
            weights=self.split.train_weights,
        )
        for sequence, first, second in zip(*(part.split(BATCH) for part in drawn[:3]), strict=True):
            yield self.see(sequence, first), self.see(sequence, second)

    # Samplers

    def pretraining(self) -> Sampler:
        """A sampler of both frames of pairs, and of a third one where maps are to compose: groups first."""
        config, size = self.config, self.config.training.batch_size
        shared = round(self.share * size)

        def local(step: int, pairs: Pairs, frames: Frames) -> Pairs:
            if config.composition:
                generator = step_generator(self.seed, step, "third frames")
                pairs = pairs._replace(third=draw_third(pairs, frames.lengths, config.skip, generator, self.group))
            return pairs.local()

        def grouped(step: int) -> Pairs:
            return local(step, self.shared_pairs(step, shared), rooms)

        def single(step: int) -> Pairs:
            return local(step, self.pretraining_pairs(step, size - shared, self.group), self.frames)

        rooms, steps = self.shared or self.frames, config.training.steps
        sources = [self._frames_of(grouped, steps, frames=rooms)] if shared else []
        if shared < size:
            sources.append(self._frames_of(single, steps))
        return lambda step: tuple(map(torch.cat, zip(*(source(step)[0] for source in sources), strict=True)))

    def completion(self) -> Sampler:
        """A sampler of both frames of pairs as in pre-training, but others."""
        size, steps = self.config.completion.batch_size, self.config.completion.steps
        frames = self._frames_of(
            lambda step: self.pretraining_pairs(step, size, stream="completion pairs").local(), steps
        )
        return lambda step: frames(step)[0]

    def head(
        self, features: Callable[[Tensor], Tensor], size: int | None
    ) -> tuple[Sampler, Callable[[], object] | None]:
        """A sampler of features of both frames, and motions; what it has to compute before all steps, if anything.

        Features of frozen networks are computed once, if they fit into memory.

        Args:
            features: those of frames.
            size: number of features of a frame, where frozen networks compute them; None for the frames themselves.
        """
        frames, posed = self.frames, self.split.posed
        source = self._frames_of(self.head_pairs, self.config.head.steps, self.passing)
        if size is None:

            def raw(step: int) -> tuple[Tensor, ...]:
                images, drawn = source(step)
                return *images, self.motions(drawn)

            return raw, None

        def encoded(step: int) -> tuple[Tensor, ...]:
            images, drawn = source(step)
            return *features(torch.cat(images)).chunk(2), self.motions(drawn)

        lengths = frames.lengths[posed]
        if frames.resident is None or size * 4 * int(lengths.sum()) > self.config.memory * 1e9:
            return encoded, None
        place = torch.zeros(len(frames.lengths), dtype=torch.long)
        place[posed] = lengths.cumsum(0) - lengths

        @cache
        def known() -> Tensor:
            sequence = posed.repeat_interleave(lengths)
            frame = torch.cat([torch.arange(length) for length in lengths.tolist()])
            parts = zip(sequence.split(BATCH), frame.split(BATCH), strict=True)
            return torch.cat([features(self.see(*part)) for part in parts])

        def stored(step: int) -> tuple[Tensor, ...]:
            if step >= self.config.head.steps and not known.cache_info().currsize:
                return encoded(step)  # a head that is trained already is oriented by a few pairs
            pairs = self.head_pairs(step)
            start = place[pairs.sequence]
            places = ((start + frame).to(frames.device, non_blocking=True) for frame in pairs.frames)
            first, second = (known()[place] for place in places)
            return first, second, self.motions(pairs)

        return stored, known

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
