"""The pose head's loss, and pairs of frames to train with."""

from __future__ import annotations

from typing import Literal, NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from niso.geometry import se3
from niso.linalg import full_precision

Scale = Literal["projection", "norm", "unit"]

_TINY = 1e-12  # squared length below which predictions have no direction


class Pairs(NamedTuple):
    """Pairs of frames, each of one sequence.

    Attributes:
        sequence: (batch,) numbers of sequences.
        first, second: (batch,) numbers of frames.
    """

    sequence: Int[Tensor, " batch"]
    first: Int[Tensor, " batch"]
    second: Int[Tensor, " batch"]


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
    """Random pairs: a sequence, how far apart its two frames are, and where they are, each uniform.

    Args:
        lengths: frames of every sequence.
        members: sequences to draw from, of two frames at least.
        skip: most frames between the two; fewer in sequences that are shorter.
        group: so many neighbouring pairs are of one sequence; `count` is a multiple.
        signed: whether half of the pairs run backwards in time.
        identical: whether a frame may be paired with itself.
        weights: of the members in the draw, instead of equal ones.
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


@full_precision
def rotation_loss(predicted: Float[Tensor, "batch 4 4"], truth: Float[Tensor, "batch 4 4"]) -> Float[Tensor, ""]:
    """L_R = ‖R − R̂‖, the mean over pairs of Frobenius norms (paper appendix)."""
    return (se3.rotation(predicted) - se3.rotation(truth)).norm(dim=(-2, -1)).mean()


@full_precision
def translation_loss(
    predicted: Float[Tensor, "batch 4 4"], truth: Float[Tensor, "batch 4 4"], group: int, scale: Scale = "projection"
) -> Float[Tensor, ""]:
    """L_T = ‖t − s t̂‖ with the translations of a group stacked, the mean over groups (paper appendix).

    Either s makes no difference of the scale of a sequence:

    - "projection", the paper's: s = ⟨t, t̂⟩ / ‖t̂‖² minimises L_T. It may be negative: a head that has all translations
      of a sequence the wrong way round is as good by this loss, and so may learn either sign for each of them.
    - "norm", ours: s = ‖t‖ / ‖t̂‖, never negative, so that the sign is the same in all sequences;
    - "unit", ours: the same, divided by ‖t‖, so that slow cameras, and sequences in large units, count like the others.
    """
    t, guess = (se3.translation(poses).unflatten(0, (-1, group)) for poses in (truth, predicted))
    squared = guess.square().sum((-2, -1)).clamp_min(_TINY)
    if scale == "unit":
        t = t / t.square().sum((-2, -1), keepdim=True).clamp_min(_TINY).sqrt()
    if scale in ("norm", "unit"):
        s = t.norm(dim=(-2, -1)) / squared.sqrt()  # one root would have no derivative where the camera stands still
    else:
        s = (t * guess).sum((-2, -1)) / squared
    return (t - s[:, None, None] * guess).norm(dim=(-2, -1)).mean()


class PoseObjective(nn.Module):
    """A predictor of relative poses and its loss L_R + L_T: what the training loop trains as a head.

    Args:
        predictor: two batches of frames, or of whatever its features are, to poses (batch, 4, 4).
        group: pairs of one sequence that follow one another in a batch.
        scale: see `translation_loss`.
    """

    def __init__(self, predictor: nn.Module, group: int, scale: Scale = "projection") -> None:
        super().__init__()
        self.predictor = predictor
        self.group, self.scale = group, scale

    def forward(self, batch: tuple[Tensor, ...], progress: float) -> dict[str, Float[Tensor, ""]]:
        """Loss terms of (first, second, true relative poses)."""
        first, second, motions = batch
        predicted = self.predictor(first, second)
        rotation = rotation_loss(predicted, motions)
        translation = translation_loss(predicted, motions, self.group, self.scale)
        return {"loss": rotation + translation, "rotation": rotation, "translation": translation}
