"""What maps predict of a transformation that is applied twice."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import torch
from jaxtyping import Shaped
from torch import Tensor

from niso.methods.evaluation.pairs import SHOWN, mean_errors
from niso.methods.method import Method
from niso.results import Metric

REPETITION_METRICS = (
    Metric(
        "repetition_error",
        "‖τ²a − c‖² / ‖c‖² with the coefficients c of T²ψ and the τ that is fitted to ψ and Tψ (mean): what a map "
        "predicts of a transformation that it was not fitted to",
        "lower",
    ),
    Metric(
        "repetition_error_centred", "the same, relative to what is left of c without the mean over all pairs", "lower"
    ),
)


class Repetition(NamedTuple):
    """What the squares of maps predict.

    Attributes:
        metrics: see `REPETITION_METRICS`.
        views: observations and predictions of the first examples, by name, in the order of a figure's rows.
    """

    metrics: dict[str, float]
    views: dict[str, Shaped[Tensor, "shown ..."]]


@torch.no_grad()
def repeat_maps(method: Method, batches: Iterable[tuple[Tensor, Tensor, Tensor]]) -> Repetition:
    """Apply maps twice, and compare with observations that were transformed twice.

    A map that represents its transformation does so in any power.

    Args:
        batches: observations ψ, Tψ and T²ψ of a method with maps.
    """
    method.model.eval()
    twice: list[tuple[Tensor, Tensor]] = []
    views: dict[str, Tensor] = {}
    for x, tx, ttx in batches:
        a, b, c = (method.encode(view) for view in (x, tx, ttx))
        tau = method.solve(a, b)
        moved = tau @ (tau @ a)
        twice.append((moved, c))
        if not views:
            rows = {"ψ": x, "Tψ": tx, "T²ψ": ttx, "D τ² E(ψ)": method.decode(moved)}
            views = {name: row[:SHOWN].cpu() for name, row in rows.items()}
    moved, c = (torch.cat(part) for part in zip(*twice, strict=True))
    return Repetition(mean_errors("repetition_error", moved, c), views)
