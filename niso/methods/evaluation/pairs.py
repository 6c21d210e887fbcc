"""What a method makes of held-out pairs, solved once: metrics, and some of them in full for figures."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import torch
from jaxtyping import Float, Shaped
from torch import Tensor

from niso import metrics
from niso.methods.evaluation.latents import INVARIANTS_ROUNDING, latent_metrics, mask_metrics, singular_values
from niso.methods.evaluation.operator import in_ascending_order
from niso.methods.method import Method
from niso.results import Curve, Metric

SHOWN = 8
"""Pairs that are kept for figures."""
RELATIVE_MAP_ERROR = Metric(
    "relative_map_error",
    "‖τ′a − b‖² / ‖b‖² with the τ′ of another observation under the same transformation (mean): what a map knows of "
    "the transformation alone",
    "lower",
)
RELATIVE_MAP_ERROR_CENTRED = Metric(
    "relative_map_error_centred",
    "the same, relative to what is left of b without the mean over all pairs: about 1 for a prediction of that mean",
    "lower",
)
EQUIVARIANCE_ERROR = Metric(
    "equivariance_error", "‖τa − b‖² / ‖b‖² with the τ that is fitted to the same held-out pair (mean)", "lower"
)
EQUIVARIANCE_ERROR_CENTRED = Metric(
    "equivariance_error_centred", "the same, relative to what is left of b without the mean over all pairs", "lower"
)
RECONSTRUCTION_ERROR = Metric(
    "reconstruction_error",
    "mean absolute error of D(τ E(ψ)) against Tψ, values lying between −1 and 1; for the autoencoder, of D(E(Tψ))",
    "lower",
)
PAIR_METRICS = (
    RELATIVE_MAP_ERROR,
    RELATIVE_MAP_ERROR_CENTRED,
    EQUIVARIANCE_ERROR,
    EQUIVARIANCE_ERROR_CENTRED,
    RECONSTRUCTION_ERROR,
)


class Maps(NamedTuple):
    """Maps of the pairs that are kept, with eigenfunctions in ascending eigenvalue where there are any.

    Attributes:
        own: solved from each pair.
        other: solved from another observation under the same T; None where there is none.
        text: what a picture of them shows.
    """

    own: Float[Tensor, "shown rank rank"]
    other: Float[Tensor, "shown rank rank"] | None
    text: str


class PairEvaluation(NamedTuple):
    """What a method makes of held-out pairs.

    Attributes:
        metrics: means over all pairs, the relative map error over those with others, see `PAIR_METRICS`.
        views: observations and predictions of the pairs that are kept, by name, in the order of a figure's rows.
        maps: their maps; None where the method has none.
        latents: what the coefficients of the first views and the operator are like, see `LATENT_METRICS`; without maps
            `INVARIANTS_ROUNDING` at most.
        curves: "singular_values" of these coefficients; empty without maps.
    """

    metrics: dict[str, float]
    views: dict[str, Shaped[Tensor, "shown ..."]]
    maps: Maps | None
    latents: dict[str, float]
    curves: dict[str, Curve]


@torch.no_grad()
def evaluate_pairs(method: Method, batches: Iterable[tuple[Tensor, ...]], shown: int = SHOWN) -> PairEvaluation:
    """Solve the maps of held-out pairs, and compare what they predict.

    Args:
        batches: observations ψ and Tψ and, for the relative map error, others ψ′ and Tψ′ under the same T. Some may
            have others, and some not.
        shown: how many pairs are kept at most: the first ones of those that have others, or have none, as the first.

    Raises:
        TypeError: the method gives maps that are not (pairs, rank, rank), or observations of another shape.
    """
    method.model.eval()
    parts: list[_Batch] = []
    kept_so_far, first = 0, None
    for x, tx, *others in batches:
        first = len(others) if first is None else first
        keeps = kept_so_far < shown and len(others) == first
        parts.append(_evaluate_batch(method, x, tx, others, keeps))
        kept_so_far += len(x) if keeps else 0
    means = {"reconstruction_error": torch.cat([part.errors for part in parts]).mean().item()}
    kept = [part for part in parts if part.views]
    names = kept[0].views if kept else {}
    views = {name: torch.cat([part.views[name] for part in kept])[:shown].cpu() for name in names}
    rounding = method.invariants_rounding
    latents = {} if rounding is None else {INVARIANTS_ROUNDING.key: rounding}
    if not method.has_maps:
        return PairEvaluation(means, views, None, latents, {})
    a, b, own = (torch.cat(same) for same in zip(*(part.coefficients[:3] for part in parts), strict=True))
    means |= mean_errors("equivariance_error", own, b)
    by_others = [(moved, b) for _, b, _, *others in (part.coefficients for part in parts) for moved in others]
    if by_others:
        moved, targets = (torch.cat(same) for same in zip(*by_others, strict=True))
        means |= mean_errors("relative_map_error", moved, targets, b)
    ordered = [
        in_ascending_order(method, torch.cat(taus)[:shown]) for taus in zip(*(part.taus for part in kept), strict=True)
    ]
    maps = Maps(ordered[0], ordered[1] if first else None, method.map_text)
    latents |= latent_metrics(a, method.has_invariants) | mask_metrics(method)
    return PairEvaluation(means, views, maps, latents, {"singular_values": singular_values(a)})


class _Batch(NamedTuple):
    """What a method makes of a batch of pairs.

    Attributes:
        errors: of reconstruction.
        coefficients: a, b, τa and, with others, τ′a; empty without maps.
        taus: τ and, with others, τ′; empty where the pairs are not kept: all of them may not fit into memory.
        views: observations and predictions by name, in the order of a figure's rows; empty where they are not kept.
    """

    errors: Float[Tensor, " pairs"]
    coefficients: tuple[Float[Tensor, "pairs rank channels"], ...]
    taus: tuple[Float[Tensor, "pairs rank rank"], ...]
    views: dict[str, Shaped[Tensor, "pairs ..."]]


def _evaluate_batch(method: Method, x: Tensor, tx: Tensor, others: list[Tensor], keeps: bool) -> _Batch:
    b = method.encode(tx)
    if not method.has_maps:
        predicted = method.decode(b)
        views = {"ψ": x, "Tψ": tx, "D E(Tψ)": predicted} if keeps else {}
        return _Batch(_absolute_errors(predicted, tx), (), (), views)
    a = method.encode(x)
    taus = (method.solve(a, b), *([method.solve(*map(method.encode, others))] if others else []))
    if taus[0].shape != (shape := (*a.shape[:-1], a.shape[-2])):  # the method may be the user's own
        name = f"{type(method).__name__}.solve"
        raise TypeError(f"{name} must give maps {shape} of coefficients {(*a.shape,)}, not {(*taus[0].shape,)}")
    moved = tuple(tau @ a for tau in taus)
    predicted = method.decode(moved[0])
    if predicted.shape != tx.shape:
        name = f"{type(method).__name__}.decode"
        raise TypeError(f"{name} must give observations {(*tx.shape,)}, not {(*predicted.shape,)}")
    part = _Batch(_absolute_errors(predicted, tx), (a, b, *moved), (), {})
    if not keeps:
        return part
    by_others = {"D τ′ E(ψ)": method.decode(moved[1])} if others else {}
    views = {"ψ": x, "Tψ": tx, "D E(ψ)": method.decode(a), "D τ E(ψ)": predicted, **by_others}
    return part._replace(taus=taus, views=views)


def _absolute_errors(
    predicted: Shaped[Tensor, "pairs ..."], views: Shaped[Tensor, "pairs ..."]
) -> Float[Tensor, " pairs"]:
    return (predicted - views).abs().flatten(1).mean(1)


def mean_errors(
    name: str,
    moved: Float[Tensor, "pairs rank channels"],
    b: Float[Tensor, "pairs rank channels"],
    everything: Float[Tensor, "observations rank channels"] | None = None,
) -> dict[str, float]:
    """Means of `transport_error` over pairs, by its name, and of the centred one, by that and `_centred`.

    The mean over n observations leaves (n − 1)/n of their variance, for which centred errors make up: where b varies in
    many directions a prediction of the true mean has about 1, however few there are. Where it varies in few, pairs
    whose b is near the mean can make it far larger: it is a mean of ratios. Of one observation there is no centred
    error. Pairs without b, as blank observations without a network, do not count: no error is a share of nothing.

    Args:
        moved, b: coefficients that maps predict, and those of the transformed observations.
        everything: what the mean is over; by default b.
    """
    everything = b if everything is None else everything
    count, seen = len(everything), (b != 0).flatten(1).any(1)
    errors = {name: metrics.transport_error(moved[seen], b[seen])}
    if count > 1:
        centred = metrics.transport_error(moved[seen], b[seen], everything.mean(0, keepdim=True))
        errors[f"{name}_centred"] = (count - 1) / count * centred
    return {key: error.double().mean().item() for key, error in errors.items()}
