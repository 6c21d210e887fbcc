"""Losses of the pose experiment, and random pairs of frames to train on."""

from __future__ import annotations

from typing import Literal, NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from niso import losses
from niso.geometry import se3
from niso.linalg import full_precision
from niso.methods.method import Method
from niso.random import local_part

Scale = Literal["projection", "norm", "unit"]

_TINY = 1e-12  # squared length below which a prediction has no direction


class Pairs(NamedTuple):
    """Pairs of frames; both frames of a pair are of one sequence.

    Attributes:
        sequence: numbers of the sequences.
        first, second: numbers of the frames in them.
        third: number of a third frame; None where there is none.
    """

    sequence: Int[Tensor, " batch"]
    first: Int[Tensor, " batch"]
    second: Int[Tensor, " batch"]
    third: Int[Tensor, " batch"] | None = None

    @property
    def frames(self) -> tuple[Int[Tensor, " batch"], ...]:
        """Numbers of the frames, two or three of each sequence."""
        return (self.first, self.second) if self.third is None else (self.first, self.second, self.third)

    def local(self) -> Pairs:
        """This process's part of the pairs of a global batch."""
        return Pairs(*(local_part(part) for part in (self.sequence, *self.frames)))


def draw_pairs(
    lengths: Int[Tensor, " sequences"],
    members: Int[Tensor, " members"],
    count: int,
    skip: int,
    generator: torch.Generator,
    group: int = 1,
    signed: bool = False,
    identical: bool = False,
    weights: Float[Tensor, " members"] | None = None,
) -> Pairs:
    """Draw random pairs: a sequence, the distance between its two frames, and their place, each uniformly.

    Args:
        lengths: number of frames of every sequence.
        members: numbers of the sequences to draw from; each has at least two frames.
        count: number of pairs, a multiple of `group`.
        skip: the most frames to leave out between the two; fewer in shorter sequences.
        group: number of consecutive pairs that are of the same sequence.
        signed: whether half of the pairs run backwards in time.
        identical: whether a frame may be paired with itself.
        weights: weights of the members in the draw, in place of equal ones.
    """

    def below(most: Tensor) -> Tensor:
        return (torch.rand(count, generator=generator, dtype=torch.float64) * most).long()

    if weights is None:
        place = torch.randint(len(members), (count // group,), generator=generator)
    else:
        place = torch.multinomial(weights, count // group, replacement=True, generator=generator)
    chosen = members[place]
    sequence = chosen.repeat_interleave(group)
    reach = (lengths[sequence] - 1).clamp_max(skip + 1)
    apart = below(reach + 1) if identical else 1 + below(reach)
    first = below(lengths[sequence] - apart)
    second = first + apart
    if signed:
        swap = torch.rand(count, generator=generator) < 0.5
        first, second = first.where(~swap, second), second.where(~swap, first)
    return Pairs(sequence, first, second)


def draw_shared(
    lengths: Int[Tensor, " sequences"],
    rooms: int,
    count: int,
    skip: int,
    generator: torch.Generator,
    group: int = 1,
    signed: bool = False,
    identical: bool = False,
) -> Pairs:
    """Draw random pairs of sequences of which each `rooms` consecutive ones share a motion, see `draw_pairs`.

    Args:
        group: number of consecutive pairs that show the same two moments of one motion in different rooms; at most
            `rooms`.
    """
    motions = lengths[::rooms]
    drawn = draw_pairs(
        motions, torch.arange(len(motions)), count // group, skip, generator, signed=signed, identical=identical
    )
    room = torch.rand(count // group, rooms, generator=generator).argsort(1)[:, :group]
    return Pairs(
        (rooms * drawn.sequence[:, None] + room).flatten(),
        drawn.first.repeat_interleave(group),
        drawn.second.repeat_interleave(group),
    )


def draw_third(
    pairs: Pairs, lengths: Int[Tensor, " sequences"], skip: int, generator: torch.Generator, group: int = 1
) -> Int[Tensor, " batch"]:
    """Draw a third frame for each pair, which leaves out at most `skip` frames between it and either of the two.

    Args:
        group: number of consecutive pairs that get the same one.
    """
    reach = skip + 1
    low = (torch.maximum(pairs.first, pairs.second) - reach).clamp_min(0)
    high = (torch.minimum(pairs.first, pairs.second) + reach).minimum(lengths[pairs.sequence] - 1)
    place = torch.rand(len(low) // group, generator=generator, dtype=torch.float64).repeat_interleave(group)
    return low + (place * (high - low + 1)).long()


class CompositionObjective(nn.Module):
    """A method's objective of pre-training, and the composition loss of its maps between three frames.

    Args:
        objective: that of the method.
        method: gives the maps, each solved from its own pair of frames.
        weight: of the composition loss.
    """

    def __init__(self, objective: nn.Module, method: Method, weight: float) -> None:
        super().__init__()
        self.objective = objective
        self.method = method
        self.weight = weight

    def forward(self, batch: tuple[Tensor, ...], progress: float) -> dict[str, Float[Tensor, ""]]:
        """Loss terms of a batch of first, second and third frames; the method's own are those of the first two."""
        terms = self.objective(batch[:2], progress)
        a, b, c = self.method.encode(torch.cat(batch)).chunk(3)
        ab, bc, ac = self.method.solve(torch.cat((a, b, a)), torch.cat((b, c, c))).chunk(3)
        terms["composition"] = losses.composition(ab, bc, ac)
        terms["loss"] = terms["loss"] + self.weight * terms["composition"]
        return terms


@full_precision
def rotation_loss(predicted: Float[Tensor, "batch 4 4"], truth: Float[Tensor, "batch 4 4"]) -> Float[Tensor, ""]:
    """L_R = ‖R − R̂‖ in the Frobenius norm, the mean over pairs (paper appendix)."""
    return (se3.rotation(predicted) - se3.rotation(truth)).norm(dim=(-2, -1)).mean()


@full_precision
def translation_loss(
    predicted: Float[Tensor, "batch 4 4"], truth: Float[Tensor, "batch 4 4"], group: int, scale: Scale = "projection"
) -> Float[Tensor, ""]:
    """L_T = ‖t − s t̂‖ with the translations of a group stacked, the mean over groups (paper appendix).

    The scale of a sequence is unknown, and every choice of s makes the loss independent of the scale of t̂:

    - "projection", the paper's: s = ⟨t, t̂⟩ / ‖t̂‖² minimises L_T. It may be negative: this loss does not penalise a
      head that reverses all translations of a sequence, and so the head may learn either sign for each sequence.
    - "norm", not in the paper: s = ‖t‖ / ‖t̂‖ is never negative, so that the sign is the same in all sequences.
    - "unit", not in the paper: like "norm", with the loss divided by ‖t‖, so that slow cameras, and sequences in large
      units, count as much as others.
    """
    t, guess = (se3.translation(poses).unflatten(0, (-1, group)) for poses in (truth, predicted))
    squared = guess.square().sum((-2, -1)).clamp_min(_TINY)
    if scale == "unit":
        t = t / t.square().sum((-2, -1), keepdim=True).clamp_min(_TINY).sqrt()
    if scale in ("norm", "unit"):
        s = t.norm(dim=(-2, -1)) / squared.sqrt()  # a single root has no derivative where the camera stands still
    else:
        s = (t * guess).sum((-2, -1)) / squared
    return (t - s[:, None, None] * guess).norm(dim=(-2, -1)).mean()


class PoseObjective(nn.Module):
    """A predictor of relative poses and its loss L_R + L_T: the objective of training a head.

    Args:
        predictor: maps the features of two batches of frames to poses (batch, 4, 4).
        group: number of consecutive pairs of a batch that are of the same sequence.
        scale: see `translation_loss`.
    """

    def __init__(self, predictor: nn.Module, group: int, scale: Scale = "projection") -> None:
        super().__init__()
        self.predictor = predictor
        self.group, self.scale = group, scale

    def forward(self, batch: tuple[Tensor, ...], progress: float) -> dict[str, Float[Tensor, ""]]:
        """Loss terms of a batch of features of the first frames, of the second frames, and true relative poses."""

        first, second, motions = batch
        predicted = self.predictor(first, second)
        rotation = rotation_loss(predicted, motions)
        translation = translation_loss(predicted, motions, self.group, self.scale)
        return {"loss": rotation + translation, "rotation": rotation, "translation": translation}
