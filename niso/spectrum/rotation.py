"""Orthonormal columns as rotations of a frame: F cayley(W) for a skew matrix W of angles."""

from __future__ import annotations

from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor

from niso.linalg import full_precision

Eigenfunctions = Literal["polar", "rotation"]
"""Parametrisation of Φ: a polar factor, or a rotation of an orthonormal frame."""


def start_frame(points: int) -> Float[Tensor, "points points"]:
    """A random orthonormal frame F."""
    return torch.linalg.qr(torch.randn(points, points)).Q


@full_precision
def rotated(frame: Float[Tensor, "points points"], basis: Float[Tensor, "points rank"]) -> Float[Tensor, "points rank"]:
    """First columns of the frame, rotated by cayley(W) for the skew matrix W of the basis."""
    rank = basis.shape[1]
    # on the CPU only: the host would wait for a GPU's answer
    if not torch.compiler.is_compiling() and basis.device.type == "cpu" and not basis.any():
        # W = 0 after a retraction: F (I + W) has the same value and first derivatives, and needs no solve
        return frame[:, :rank] + frame @ _skew(basis)[:, :rank]
    return frame @ _cayley(_skew(basis))[:, :rank]


@torch.no_grad()
def retract_(frame: Float[Tensor, "points points"], basis: Float[Tensor, "points rank"]) -> None:
    """Move the rotation from the basis into the frame, which leaves `rotated` unchanged."""
    turned = frame @ _cayley(_skew(basis))
    gram = turned.mT @ turned  # the third-order Newton–Schulz step below stops rounding errors from accumulating
    identity = torch.eye(len(gram), dtype=gram.dtype, device=gram.device)
    frame.copy_(turned @ (15 * identity - 10 * gram + 3 * gram @ gram) / 8)
    basis.zero_()


def _skew(basis: Float[Tensor, "points rank"]) -> Float[Tensor, "points points"]:
    """Skew matrix W that rotates among the first `rank` directions, and between these and the others."""
    points, rank = basis.shape
    inner, outer = basis[:rank], basis[rank:]
    top = torch.cat([(inner - inner.mT) / 2, -outer.mT], dim=1)
    return torch.cat([top, torch.cat([outer, outer.new_zeros(points - rank, points - rank)], dim=1)])


def _cayley(w: Float[Tensor, "n n"]) -> Float[Tensor, "n n"]:
    """Cayley map (I − W/2)⁻¹ (I + W/2): orthogonal for a skew W, and I + W to first order."""
    identity = torch.eye(len(w), dtype=w.dtype, device=w.device)
    return torch.linalg.solve(identity - w / 2, identity + w / 2)
