"""What coefficients and the eigenvalues of an operator are like: whether they collapse."""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from niso import metrics
from niso.methods.method import Method
from niso.results import Curve, Metric

SEVERAL = 4
"""Singular values of coefficients, of which a single large one says that something is wrong."""
ROUNDING = 1e-6
"""Relative differences of invariants that are no more than rounding."""
MASK_METRICS = (
    Metric("mask_mean", "mean of the mask exp(−|λᵢ − λⱼ|) off its diagonal: 1 where all eigenvalues are equal"),
    Metric("clusters", "clusters of eigenvalues, neighbours at most log 2 apart"),
    Metric("single_eigenvalues", "share of the eigenvalues that are a cluster of their own"),
)
"""Of methods whose maps a mask of the operator restricts."""
INVARIANT_METRICS = (
    Metric("invariants_common", "share of the mean in aᵀa: 1 where it is the same for all observations", "lower"),
    Metric(
        "invariants_rank",
        "effective number of directions, (tr C)² / tr C² of the covariance C, in which aᵀa / ‖aᵀa‖ varies, at most "
        "n − 1 of n held-out observations, and 0 where nothing varies but rounding; of one channel, aᵀa itself",
        "higher",
    ),
)
"""Of methods whose maps leave the inner products of channels as they are."""
LATENT_METRICS = (
    Metric("latent_common", "share of the mean in the coefficients a: 1 where they are the same for all observations"),
    Metric("latent_rank", "effective number of singular values of a: (Σσ²)² / Σσ⁴ (mean)"),
    Metric("latent_spread", "root mean square of a without its mean over observations"),
    *INVARIANT_METRICS,
    *MASK_METRICS,
)
INVARIANTS_ROUNDING = Metric(
    "invariants_rounding",
    "error of aᵀa in half precision, relative to its standard deviation over observations (median over entries): where "
    "it is 0.1 or more, networks run in float32 after pre-training",
    "lower",
)
"""Of runs in half precision."""


def latent_metrics(a: Float[Tensor, "observations rank channels"], invariants: bool = True) -> dict[str, float]:
    """What coefficients are like, see `LATENT_METRICS`: whether they, or the invariants aᵀa, collapse.

    Args:
        invariants: whether aᵀa are any: isometries alone leave them as they are.
    """
    a = a.double()
    gram = a.mT @ a
    several = {"latent_rank": _effective(gram).mean().item()} if min(a.shape[1:]) >= SEVERAL else {}
    return {
        "latent_common": _common(a),
        **several,
        "latent_spread": (a - a.mean(0)).square().mean().sqrt().item(),
        **({"invariants_common": _common(gram), "invariants_rank": _varying(gram)} if invariants else {}),
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
        "logarithmic": "y",
    }


def mask_metrics(method: Method) -> dict[str, float]:
    """How eigenvalues are spread, see `MASK_METRICS`; none where no mask restricts the maps."""
    mask, spectrum = method.mask(), method.spectrum()
    if mask is None or spectrum is None:
        return {}
    sizes: Int[Tensor, " clusters"] = metrics.clusters(spectrum.eigenvalues).bincount()
    rank = len(mask)
    if rank == 1:  # which no other is like, nor unlike
        return {"clusters": 1.0}
    return {
        "mask_mean": ((mask.sum() - rank) / (rank * (rank - 1))).item(),
        "clusters": len(sizes),
        "single_eigenvalues": int((sizes == 1).sum()) / rank,
    }


def _varying(gram: Float[Tensor, "observations channels channels"]) -> float:
    """Effective number of directions in which invariants vary, see `LATENT_METRICS`."""
    flat = gram.flatten(1)
    if flat.shape[1] == 1:  # whose direction is the same for all observations
        return float(flat.std(correction=0) > ROUNDING * flat.mean())
    directions = nn.functional.normalize(flat, dim=1)
    directions = directions - directions.mean(0)
    if directions.norm(dim=1).max() <= ROUNDING:
        return 0.0
    return _effective(directions.T @ directions).item()


def _common(x: Float[Tensor, "observations ..."]) -> float:
    """Share of the mean over observations in the energy."""
    return (x.mean(0).square().sum() / x.square().sum().div(len(x)).clamp_min(1e-300)).item()


def _effective(gram: Float[Tensor, "*batch size size"]) -> Float[Tensor, " *batch"]:
    """Number of equal eigenvalues that would be as uneven as those of a symmetric matrix: (tr G)² / tr G²."""
    trace = gram.diagonal(dim1=-2, dim2=-1).sum(-1)
    return trace.square() / gram.square().sum((-2, -1)).clamp_min(1e-300)
