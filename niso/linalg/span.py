"""The span of the columns of a matrix, and an orthonormal basis of it."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from niso.linalg.precision import full_precision
from niso.linalg.svd import cudagraph_unsafe, robust_svd

DEPENDENT = 1e-10
"""Distance of a column from the span of those before it, relative to its norm, below which it is rounding."""


def orthonormal(functions: Float[Tensor, "points some"], least: float = DEPENDENT) -> Float[Tensor, "points some"]:
    """An orthonormal basis of the span of functions, of which `least` of each must lie outside that of the others.

    Raises:
        ValueError: they are linearly dependent, or not finite.
    """
    if functions.shape[1] > functions.shape[0]:
        raise ValueError(f"{functions.shape[1]} functions at {functions.shape[0]} points are linearly dependent")
    q, r = torch.linalg.qr(functions)
    sizes = r.diagonal().abs()
    if not (sizes > least * functions.norm(dim=0)).all():  # a direction of rounding errors, or NaN
        raise ValueError("functions must be finite and linearly independent")
    return q


@full_precision
def span(a: Float[Tensor, "*batch rows columns"]) -> Float[Tensor, "*batch rows rows"]:
    """Orthogonal projection onto the span of the columns, to rounding; columns may depend on each other, or be zero.

    It has first derivatives in reverse mode. They are exact along all changes that leave the rank as it is, at repeated
    singular values too; along others, where there are none, they are zero. It can be compiled and exported.
    """
    svd = torch.ops.niso.svd if torch.compiler.is_compiling() else robust_svd
    u, s, vh = svd(a.detach())
    held = s > s[..., :1] * max(a.shape[-2:]) * torch.finfo(a.dtype).eps
    u = u * held[..., None, :]
    projection = u @ u.mT
    if not a.requires_grad:
        return projection
    # dP = (I − P) da a⁺ and its transpose: no difference of singular values, which the SVD's derivative divides by
    outside = a @ (vh.mT * s.reciprocal().where(held, 0)[..., None, :]) @ u.mT
    outside = outside - projection @ outside
    change = outside - outside.detach()
    return projection + change + change.mT


@torch.library.custom_op(
    "niso::svd", mutates_args=(), schema="(Tensor m) -> (Tensor, Tensor, Tensor)", **cudagraph_unsafe()
)
def _svd_operator(m: Tensor) -> tuple[Tensor, ...]:
    """`robust_svd`, opaque to torch.compile and torch.export, which cannot trace its fallbacks; no derivative."""
    return tuple(factor.contiguous() for factor in robust_svd(m))


@_svd_operator.register_fake
def _svd_shapes(m: Tensor) -> tuple[Tensor, ...]:
    *batch, n, k = m.shape
    least = torch.sym_min(n, k)
    return tuple(m.new_empty(*batch, *shape) for shape in ((n, least), (least,), (least, k)))
