"""Losses of the pose experiment."""

from __future__ import annotations

from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn

from niso import losses
from niso.checks import Scalar
from niso.geometry import se3
from niso.linalg import full_precision
from niso.methods.method import Method

Scale = Literal["projection", "norm", "unit"]

_TINY = 1e-12  # squared length below which a prediction has no direction


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

    def forward(self, batch: tuple[Tensor, ...], progress: Scalar) -> dict[str, Float[Tensor, ""]]:
        """Loss terms of a batch of first, second and third frames; the method's own are those of the first two."""
        terms = self.objective(batch[:2], progress)
        a, b, c = self.method.encode(torch.cat(batch)).chunk(3)
        ab, bc, ac = self.method.solve(torch.cat((a, b, a)), torch.cat((b, c, c))).chunk(3)
        terms["composition"] = losses.composition(ab, bc, ac)
        terms["loss"] = terms["loss"] + self.weight * terms["composition"]
        return terms


@full_precision
def rotation_loss(predicted: Float[Tensor, "batch 4 4"], truth: Float[Tensor, "batch 4 4"]) -> Float[Tensor, ""]:
    """L_R = ‖R − R̂‖ in the Frobenius norm, the mean over pairs (paper eq. 25)."""
    return (se3.rotation(predicted) - se3.rotation(truth)).norm(dim=(-2, -1)).mean()


@full_precision
def translation_loss(
    predicted: Float[Tensor, "batch 4 4"], truth: Float[Tensor, "batch 4 4"], group: int, scale: Scale = "projection"
) -> Float[Tensor, ""]:
    """L_T = ‖t − s t̂‖ with the translations of a group stacked, the mean over groups (paper eq. 26 and 27).

    The scale of a sequence is unknown, and every choice of s makes the loss independent of the scale of t̂ (where t̂ is
    shorter than 1e-6 it has no direction, and s grows no further):

    - "projection", the paper's: s = ⟨t, t̂⟩ / ‖t̂‖² minimises L_T. It may be negative: this loss does not penalise a
      head that reverses all translations of a sequence, and so the head may learn either sign for each sequence.
    - "norm", not in the paper: s = ‖t‖ / ‖t̂‖ is never negative, so that the sign is the same in all sequences.
    - "unit", not in the paper: like "norm", with the loss divided by ‖t‖, so that slow cameras, and sequences in large
      units, count as much as others.
    """
    t, guess = (se3.translation(poses).unflatten(0, (-1, group)) for poses in (truth, predicted))
    squared = guess.square().sum((-2, -1)).clamp_min(_TINY)
    if scale == "unit":
        t = t / t.abs().amax((-2, -1), keepdim=True).clamp_min(torch.finfo(t.dtype).tiny)  # in whatever unit
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

    def forward(self, batch: tuple[Tensor, ...], progress: Scalar) -> dict[str, Float[Tensor, ""]]:
        """Loss terms of a batch of features of the first frames, of the second frames, and true relative poses."""
        first, second, motions = batch
        predicted = self.predictor(first, second)
        rotation = rotation_loss(predicted, motions)
        translation = translation_loss(predicted, motions, self.group, self.scale)
        return {"loss": rotation + translation, "rotation": rotation, "translation": translation}
