"""Which sequences a run trains, validates and tests on."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from niso.data.video.sequences import TEST, TRAIN
from niso.errors import InputError
from niso.experiments.pose.evaluation import Evaluable, evaluable
from niso.experiments.pose.frames import RENDERED, Frames
from niso.experiments.pose.presets import PoseConfig


@dataclass(frozen=True)
class Split:
    """Numbers of sequences.

    Attributes:
        train, posed: to pre-train on, and those of them with poses, which the head is trained on.
        train_weights, posed_weights: their weights in a draw; None where they are equal.
        footage: those of the latter that are like the sequences to test on: neither mirrored nor, where there are
            others, rendered clips.
        validated: to validate on: nothing is trained on them.
        test, evaluated: to test on, and those of them that can be evaluated.
    """

    train: Int[Tensor, " sequences"]
    posed: Int[Tensor, " posed"]
    train_weights: Float[Tensor, " sequences"] | None
    posed_weights: Float[Tensor, " posed"] | None
    footage: Int[Tensor, " footage"]
    validated: Evaluable
    test: Int[Tensor, " held_out"]
    evaluated: Evaluable

    def names(self, frames: Frames) -> dict[str, list[str]]:
        """Names of the sequences of each part, without rendered clips to train on and mirrored sequences."""
        train = [n for n in self.train.tolist() if frames.splits[n] == TRAIN and not frames.mirrored[n]]
        parts = {"train": train, "validation": self.validated.sequences, "test": self.test.tolist()}
        return {part: [frames.names[number] for number in members] for part, members in parts.items()}


def split(frames: Frames, config: PoseConfig, source: object) -> Split:
    """Choose the sequences to train, validate and test on.

    Validation sequences are like those to test on: rendered clips only where no other sequence has poses.

    Args:
        source: what errors call the data.

    Raises:
        InputError: there are none to train on, or none to test on.
    """
    posed = frames.members(TRAIN, RENDERED, posed=True)
    footage = frames.members(TRAIN, posed=True)
    kept = frames.chosen_evenly(footage if len(footage) else posed, config.validation)
    validated = evaluable(frames, kept.tolist())
    validation = torch.tensor(validated.sequences, dtype=torch.long)
    train, posed = (frames.without(members, validation) for members in (frames.members(TRAIN, RENDERED), posed))
    if not len(posed):
        if len(train):
            problem, remedy = "with camera poses", "--rendered 0.5 adds rendered clips, which have some"
        else:
            problem, remedy = "of the split train", "prepare more sequences, or hold out fewer (--held-out, --test)"
        raise InputError(f"{source} has no sequence {problem}, which the head is trained on: {remedy}")
    test = frames.members(TEST)
    evaluated = evaluable(frames, test.tolist())
    if not any(evaluated.members.values()):
        first = next((f" ({name}: {why})" for name, why in evaluated.reasons.items()), "")
        remedy = "prepare two with cameras or more, or name one to test on (--test)"
        if first:
            remedy = "test on another by `niso data prepare video … --test NAME`, or correct its cameras"
        raise InputError(f"{source} has no sequence of the split test that can be evaluated{first}: {remedy}")
    return Split(
        train,
        posed,
        frames.weights(train, config.rendered),
        frames.weights(posed, config.rendered),
        frames.footage(posed),
        validated,
        test,
        evaluated,
    )
