"""Orthonormal columns as rotations of a frame: F cayley(W) for a skew matrix W of angles."""

from __future__ import annotations

from typing import Any, Literal

import torch
from jaxtyping import Float
from torch import Tensor

from niso.linalg import full_precision
from niso.linalg.products import product

Eigenfunctions = Literal["polar", "rotation"]
"""Parametrisation of Φ: a polar factor, or a rotation of an orthonormal frame."""


def random_frame(points: int) -> Float[Tensor, "points points"]:
    """A random orthonormal frame F."""
    return torch.linalg.qr(torch.randn(points, points)).Q


def rotated(frame: Float[Tensor, "points points"], basis: Float[Tensor, "points rank"]) -> Float[Tensor, "points rank"]:
    """First columns of the frame, rotated by cayley(W) for the skew matrix W of the basis; in float32 at least."""
    return _rotated(_orthonormal(frame), basis)


@full_precision
def _rotated(
    frame: Float[Tensor, "points points"], basis: Float[Tensor, "points rank"]
) -> Float[Tensor, "points rank"]:
    # on the CPU only: the host would wait for a GPU's answer; and not where a batch of bases could give several
    transformed = torch.compiler.is_compiling() or torch._C._are_functorch_transforms_active()
    plain = basis.device.type == "cpu" and not transformed
    if plain and not basis.any():
        return _CayleyAtZero.apply(frame, basis)
    return _cayley(frame, basis)[0]


@torch.no_grad()
def retract_(frame: Float[Tensor, "points points"], basis: Float[Tensor, "points rank"]) -> None:
    """Move the rotation from the basis into the frame, which leaves `rotated` unchanged."""
    turned = torch.cat(_cayley(_orthonormal(frame), basis), dim=1)
    frame.copy_(_newton_schulz(turned))
    basis.zero_()


def _orthonormal(frame: Float[Tensor, "points points"]) -> Float[Tensor, "points points"]:
    """A frame that is stored in half precision, and rounded, made orthonormal in float32."""
    return frame if torch.finfo(frame.dtype).bits >= 32 else _newton_schulz(frame)


@full_precision
def _newton_schulz(frame: Float[Tensor, "points points"]) -> Float[Tensor, "points points"]:
    """A Newton–Schulz step, which stops rounding errors from accumulating."""
    return 1.5 * frame - product(frame, product(frame.mT, frame) / 2)


@full_precision
def _cayley(frame: Float[Tensor, "points points"], basis: Float[Tensor, "points rank"]) -> tuple[Tensor, Tensor]:
    """F cayley(W) = 2 F (I − W/2)⁻¹ − F, its first `rank` columns and the others.

    W = [A, −Bᵀ; B, 0] is skew: it rotates among the first `rank` directions, and between these and the others. The
    Schur complement I − A/2 + BᵀB/4 is all that has to be solved with.
    """
    rank = basis.shape[1]
    inner, outer = basis[:rank], basis[rank:]
    first, others = frame[:, :rank], frame[:, rank:]
    complement = (inner.mT - inner) / 4 + product(outer.mT, outer) / 4
    complement = complement + torch.eye(rank, dtype=basis.dtype, device=basis.device)
    # its symmetric part is I + BᵀB/4, so that it is never singular: the host need not wait for a GPU to find out
    solved = torch.linalg.solve_ex(complement, first + product(others, outer) / 2, left=False).result
    return 2 * solved - first, others - product(solved, outer.mT)


class _CayleyAtZero(torch.autograd.Function):
    """F cayley(W) where W = 0, as after a retraction: columns of F, and first derivatives as of F (I + W)."""

    @staticmethod
    def forward(frame: Tensor, basis: Tensor) -> Tensor:
        return frame[:, : basis.shape[1]].clone()

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor], output: Tensor) -> None:
        ctx.save_for_backward(inputs[0])
        ctx.save_for_forward(inputs[0])

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[None, Tensor]:
        (frame,) = ctx.saved_tensors
        turn = product(frame.mT, grad)
        inner = turn[: turn.shape[1]]
        return None, torch.cat([(inner - inner.mT) / 2, turn[turn.shape[1] :]])

    @staticmethod
    def jvp(ctx: Any, frame_tangent: Tensor | None, tangent: Tensor) -> Tensor:
        (frame,) = ctx.saved_tensors  # a buffer, which has no tangent but 0
        rank = tangent.shape[1]
        inner = (tangent[:rank] - tangent[:rank].mT) / 2
        return frame @ torch.cat([inner, tangent[rank:]])
