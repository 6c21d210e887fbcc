"""What a method makes of held-out pairs, solved once: metrics, and some of them in full for figures."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import torch
from jaxtyping import Float, Int, Shaped
from torch import Tensor, nn

from niso import metrics
from niso.methods.method import Method
from niso.results import Curve, Metric
from niso.spectrum import Spectrum

FINER = 4
"""Pictures of a field are on a grid so many times as fine, along each axis, as the latent one."""
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
SEVERAL = 4
"""Singular values of coefficients, of which a single large one says that something is wrong."""
MASK_METRICS = (
    Metric("mask_mean", "mean of the mask exp(−|λᵢ − λⱼ|) off its diagonal: 1 where all eigenvalues are equal"),
    Metric("clusters", "clusters of eigenvalues, neighbours at most log 2 apart"),
    Metric("single_eigenvalues", "share of the eigenvalues that are a cluster of their own"),
)
"""Of methods whose maps a mask of the operator restricts."""
LATENT_METRICS = (
    Metric("latent_common", "share of the mean in the coefficients a: 1 where they are the same for all observations"),
    Metric("latent_rank", "effective number of singular values of a: (Σσ²)² / Σσ⁴ (mean)"),
    Metric("latent_spread", "root mean square of a without its mean over observations"),
    Metric("invariants_common", "share of the mean in aᵀa: 1 where it is the same for all observations", "lower"),
    Metric(
        "invariants_rank",
        "effective number of directions, (tr C)² / tr C² of the covariance C, in which aᵀa / ‖aᵀa‖ varies, at most "
        "n − 1 of n held-out observations; of one channel, aᵀa itself",
        "higher",
    ),
    *MASK_METRICS,
)
INVARIANTS_ROUNDING = Metric(
    "invariants_rounding",
    "error of aᵀa in half precision, relative to its standard deviation over observations (median over entries): where "
    "it is 0.1 or more, networks run in float32 after pre-training",
    "lower",
)
"""Of runs in half precision."""
PAIR_METRICS = (
    RELATIVE_MAP_ERROR,
    RELATIVE_MAP_ERROR_CENTRED,
    EQUIVARIANCE_ERROR,
    EQUIVARIANCE_ERROR_CENTRED,
    RECONSTRUCTION_ERROR,
)


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


class Repetition(NamedTuple):
    """What the squares of maps predict.

    Attributes:
        metrics: see `REPETITION_METRICS`.
        views: observations and predictions of the first examples, by name, in the order of a figure's rows.
    """

    metrics: dict[str, float]
    views: dict[str, Shaped[Tensor, "shown ..."]]


class Operator(NamedTuple):
    """A learned operator, on the CPU.

    Attributes:
        spectrum: with eigenvalues in ascending order.
        mask: that maps are solved under; None where there is none.
        grid: height and width of the latent grid, or the three sides of volumes'.
        areas: given ones of the latent points, of mean 1.
        drawn: the spectrum on the grid that pictures show: finer than the latent one where it is a field.
        drawn_grid: sides of that one.
    """

    spectrum: Spectrum
    mask: Float[Tensor, "rank rank"] | None
    grid: tuple[int, ...]
    areas: Float[Tensor, " points"]
    drawn: Spectrum
    drawn_grid: tuple[int, ...]


@torch.no_grad()
def learned_operator(method: Method) -> Operator | None:
    """The operator that a method has learned; None where it learns none."""
    spectrum, mask = method.spectrum(), method.mask()
    if spectrum is None:
        return None
    sides = tuple(FINER * side for side in method.grid)
    fine = method.spectrum_at(method.domain(*sides))
    drawn, drawn_grid = (spectrum, method.grid) if fine is None else (fine, sides)
    order = spectrum.eigenvalues.argsort().cpu()
    ordered, drawn = (
        Spectrum(mass, functions[:, order], eigenvalues[order])
        for mass, functions, eigenvalues in (map(Tensor.cpu, part) for part in (spectrum, drawn))
    )
    mask = None if mask is None else mask.cpu()[order][:, order]
    return Operator(ordered, mask, method.grid, method.domain(*method.grid).weights, drawn, drawn_grid)


@torch.no_grad()
def evaluate_pairs(method: Method, batches: Iterable[tuple[Tensor, ...]], shown: int = SHOWN) -> PairEvaluation:
    """Solve the maps of held-out pairs, and compare what they predict.

    Args:
        batches: observations ψ and Tψ and, for the relative map error, others ψ′ and Tψ′ under the same T. Some may
            have others, and some not.
        shown: how many pairs are kept at most: the first ones of those that have others, or have none, as the first.
    """
    method.model.eval()
    errors: list[Tensor] = []
    coefficients: list[tuple[Tensor, ...]] = []
    by_others: list[tuple[Tensor, Tensor]] = []
    maps: list[list[Tensor]] = []
    views: list[dict[str, Tensor]] = []
    kept_so_far, first = 0, None
    for x, tx, *others in batches:
        first = len(others) if first is None else first
        keeps = kept_so_far < shown and len(others) == first
        b = method.encode(tx)
        rows = {"ψ": x, "Tψ": tx}
        if method.has_maps:
            a = method.encode(x)
            taus = [method.solve(a, b), *([method.solve(*map(method.encode, others))] if others else [])]
            if taus[0].shape != (shape := (*a.shape[:-1], a.shape[-2])):  # the method may be the user's own
                name = f"{type(method).__name__}.solve"
                raise TypeError(f"{name} must give maps {shape} of coefficients {(*a.shape,)}, not {(*taus[0].shape,)}")
            moved = [tau @ a for tau in taus]
            predicted = method.decode(moved[0])
            coefficients.append((a, b, moved[0]))  # not the maps: all of them may not fit into memory
            by_others += [(other, b) for other in moved[1:]]
            if keeps:
                maps.append(taus)
                rows |= {"D E(ψ)": method.decode(a), "D τ E(ψ)": predicted}
                if others:
                    rows["D τ′ E(ψ)"] = method.decode(moved[1])
        else:
            predicted = method.decode(b)
            rows |= {"D E(Tψ)": predicted}
        errors.append((predicted - tx).abs().flatten(1).mean(1))
        if keeps:
            views.append(rows)
            kept_so_far += len(x)
    means = {"reconstruction_error": torch.cat(errors).mean().item()}
    kept = {name: torch.cat([part[name] for part in views])[:shown].cpu() for name in (views[0] if views else {})}
    rounding = method.invariants_rounding
    latents = {} if rounding is None else {INVARIANTS_ROUNDING.key: rounding}
    if not coefficients:
        return PairEvaluation(means, kept, None, latents, {})
    a, b, own = (torch.cat(part) for part in zip(*coefficients, strict=True))
    means |= mean_errors("equivariance_error", own, b)
    if by_others:
        carried, targets = (torch.cat(part) for part in zip(*by_others, strict=True))
        means |= mean_errors("relative_map_error", carried, targets, b)
    ordered = [in_ascending_order(method, torch.cat(taus)[:shown]) for taus in zip(*maps, strict=True)]
    own_maps, other_maps = ordered[0], ordered[1] if first else None
    shown_maps = Maps(own_maps, other_maps, method.map_text)
    latents |= latent_metrics(a) | _mask_metrics(method)
    return PairEvaluation(means, kept, shown_maps, latents, {"singular_values": singular_values(a)})


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


def mean_errors(
    name: str,
    moved: Float[Tensor, "pairs rank channels"],
    b: Float[Tensor, "pairs rank channels"],
    everything: Float[Tensor, "observations rank channels"] | None = None,
) -> dict[str, float]:
    """Means of `transport_error` over pairs, by its name, and of the centred one, by that and `_centred`.

    The mean over n observations leaves (n − 1)/n of their variance, for which centred errors make up: a prediction of
    the true mean has about 1, however few there are. Of one observation there is no centred error. Pairs without b, as
    blank observations without a network, do not count: no error is a share of nothing.

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


def latent_metrics(a: Float[Tensor, "observations rank channels"]) -> dict[str, float]:
    """What coefficients are like, see `LATENT_METRICS`: whether they, or the invariants aᵀa, collapse."""
    a = a.double()
    gram = a.mT @ a
    several = {"latent_rank": _effective(gram).mean().item()} if min(a.shape[1:]) >= SEVERAL else {}
    return {
        "latent_common": _common(a),
        **several,
        "latent_spread": (a - a.mean(0)).square().mean().sqrt().item(),
        "invariants_common": _common(gram),
        "invariants_rank": _varying(gram),
    }


def singular_values(a: Float[Tensor, "observations rank channels"]) -> Curve:
    """Singular values of coefficients, relative to the largest of each observation: the mean over those of pairs."""
    values = torch.linalg.svdvals(a.double())
    share = (values / values[:, :1].clamp_min(1e-300)).mean(0).tolist()
    return {
        "x": [float(i + 1) for i in range(len(share))],
        "y": share,
        "count": [len(a)] * len(share),
        "x_label": "singular value of the coefficients",
        "y_label": "size, relative to the first (mean)",
    }


def _mask_metrics(method: Method) -> dict[str, float]:
    """How eigenvalues are spread, see `MASK_METRICS`; none where no mask restricts the maps."""
    mask, spectrum = method.mask(), method.spectrum()
    if mask is None or spectrum is None:
        return {}
    sizes: Int[Tensor, " clusters"] = metrics.clusters(spectrum.eigenvalues).bincount()
    rank = len(mask)
    return {
        "mask_mean": ((mask.sum() - rank) / max(rank * (rank - 1), 1)).item(),
        "clusters": len(sizes),
        **({"single_eigenvalues": int((sizes == 1).sum()) / rank} if rank > 1 else {}),
    }


def _varying(gram: Float[Tensor, "observations channels channels"]) -> float:
    """Effective number of directions in which invariants vary, see `LATENT_METRICS`."""
    flat = gram.flatten(1)
    if flat.shape[1] == 1:  # whose direction is the same for all observations
        return float(flat.std(correction=0) > 1e-6 * flat.mean())
    directions = nn.functional.normalize(flat, dim=1)
    directions = directions - directions.mean(0)
    return _effective(directions.T @ directions).item()


def _common(x: Float[Tensor, "observations ..."]) -> float:
    """Share of the mean over observations in the energy."""
    return (x.mean(0).square().sum() / x.square().sum().div(len(x)).clamp_min(1e-300)).item()


def _effective(gram: Float[Tensor, "*batch size size"]) -> Float[Tensor, " *batch"]:
    """Number of equal eigenvalues that would be as uneven as those of a symmetric matrix: (tr G)² / tr G²."""
    trace = gram.diagonal(dim1=-2, dim2=-1).sum(-1)
    return trace.square() / gram.square().sum((-2, -1)).clamp_min(1e-300)


def in_ascending_order(method: Method, tau: Float[Tensor, "maps rank rank"]) -> Float[Tensor, "maps rank rank"]:
    """Maps on the CPU, with eigenfunctions in ascending eigenvalue where the method has any."""
    spectrum = method.spectrum()
    if spectrum is None:
        return tau.cpu()
    order = spectrum.eigenvalues.argsort()
    return tau[:, order][:, :, order].cpu()
