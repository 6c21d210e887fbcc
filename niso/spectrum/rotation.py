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


def rotated(
    frame: Float[Tensor, "points points"], basis: Float[Tensor, "points rank"], least: torch.dtype = torch.float32
) -> Float[Tensor, "points rank"]:
    """First columns of the frame, rotated by cayley(W) for the skew matrix W of the basis; in this precision at
    least."""
    return _rotated(_orthonormal(frame, least), basis.to(torch.promote_types(basis.dtype, least)))


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
    turned = torch.cat(_cayley(_orthonormal(frame, torch.float32), basis), dim=1)
    frame.copy_(newton_schulz(turned))
    basis.zero_()


def _orthonormal(frame: Float[Tensor, "points points"], least: torch.dtype) -> Float[Tensor, "points points"]:
    """A frame that is stored, and rounded, in less precision than this, made orthonormal in it."""
    wide = torch.promote_types(frame.dtype, least)
    return frame if wide == frame.dtype else newton_schulz(frame.to(wide))


@full_precision
def newton_schulz(frame: Float[Tensor, "points points"]) -> Float[Tensor, "points points"]:
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
    """F cayley(W) where W = 0, as after a retraction: columns of F, and first derivatives as of F (I + W). Where these
    may be differentiated again, they are those of `_cayley`."""

    @staticmethod
    def forward(frame: Tensor, basis: Tensor) -> Tensor:
        return frame[:, : basis.shape[1]].clone()

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor], output: Tensor) -> None:
        ctx.save_for_backward(*inputs)
        ctx.save_for_forward(inputs[0])

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[None, Tensor]:
        frame, basis = ctx.saved_tensors
        if torch.is_grad_enabled():
            return None, torch.autograd.grad(_cayley(frame, basis)[0], basis, grad, create_graph=True)[0]
        turn = product(frame.mT, grad)
        inner = turn[: turn.shape[1]]
        return None, torch.cat([(inner - inner.mT) / 2, turn[turn.shape[1] :]])

    @staticmethod
    def jvp(ctx: Any, frame_tangent: Tensor | None, tangent: Tensor) -> Tensor:
        (frame,) = ctx.saved_tensors  # a buffer, which has no tangent but 0
        rank = tangent.shape[1]
        inner = (tangent[:rank] - tangent[:rank].mT) / 2
        return frame @ torch.cat([inner, tangent[rank:]])
