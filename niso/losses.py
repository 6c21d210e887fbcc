"""The terms of the Neural Isometries objective (paper eq. 9–11).

The paper leaves the norms open. Mean absolute errors, "l1", are the released code's; "l2" is the mean square.
"""

from __future__ import annotations

from typing import Literal, get_args

import torch
from jaxtyping import Float, Shaped
from torch import Tensor

from niso.functional_map import multiplicity_mask
from niso.linalg import full_precision

Direction = Literal["both", "forward"]
Norm = Literal["l1", "l2"]


def _mean_error(error: Tensor, norm: Norm) -> Tensor:
    if norm not in get_args(Norm):
        raise ValueError(f"norm must be one of {get_args(Norm)}, not {norm!r}")
    return (error.abs() if norm == "l1" else error.square()).mean()


@full_precision
def equivariance(
    tau: Float[Tensor, "*batch rank rank"],
    a: Float[Tensor, "*batch rank channels"],
    b: Float[Tensor, "*batch rank channels"],
    directions: Direction = "both",
    norm: Norm = "l1",
) -> Float[Tensor, ""]:
    """Equivariance loss |τ a − b|, plus |τᵀ b − a| for "both" directions, each a mean over entries.

    The paper's eq. 9 has the first term alone; the released code has both.
    """
    forward = _mean_error(tau @ a - b, norm)
    return forward if directions == "forward" else forward + _mean_error(tau.mT @ b - a, norm)


@full_precision
def reconstruction(
    prediction: Shaped[Tensor, "*p"], target: Shaped[Tensor, "*t"], norm: Norm = "l1"
) -> Shaped[Tensor, ""]:
    """Reconstruction loss |D(τ E(ψ)) − Tψ| in one direction (one half of paper eq. 10), a mean over entries.

    Raises:
        ValueError: shapes that differ, which would otherwise broadcast.
    """
    if prediction.shape != target.shape:
        raise ValueError(f"prediction {tuple(prediction.shape)} and target {tuple(target.shape)} differ in shape")
    return _mean_error(prediction - target, norm)


@full_precision
def multiplicity(eigenvalues: Float[Tensor, " rank"]) -> Float[Tensor, ""]:
    """Multiplicity loss ‖Δ_P‖ / k for the graph Laplacian Δ_P = diag(P1) − P of the eigenvalue mask.

    It is √(k − 1) for a fully degenerate spectrum and 1e-4 / k for one whose eigenvalues lie far apart.
    The Frobenius norm, the division by k and 1e-8 under the root (a finite gradient at 0) are the released code's.

    Source: paper §4.2 and eq. 22.
    """
    mask = multiplicity_mask(eigenvalues)
    laplacian = torch.diag(mask.sum(-1)) - mask
    return (laplacian.square().sum() + 1e-8).sqrt() / len(eigenvalues)
