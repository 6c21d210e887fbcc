"""Random pairs of frames of sequences."""

from __future__ import annotations

from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from niso.collective import local_part


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
    group: int,
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
