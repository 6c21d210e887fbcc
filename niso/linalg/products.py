"""Products of matrices on the CPU by oneDNN, which knows the wide registers of every processor.

Torch gives products in float32 to MKL, which does not use them on processors of another maker than its own: oneDNN is
twice as fast there (benchmarks/results/products.json).
"""

from __future__ import annotations

import math
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

LEAST = 2**22
"""Multiplications from which starting oneDNN costs less than it saves."""
LONGEST = 16
"""Largest length of its sums, relative to the rows and the columns of a product: longer ones are mostly the gradients
of thin layers, which it computes no faster."""
AVAILABLE = torch.backends.mkldnn.is_available() and hasattr(torch.ops.mkldnn, "_linear_pointwise")
"""Whether this torch has oneDNN."""


def product(x: Float[Tensor, "*#batch n m"], y: Float[Tensor, "*#batch m k"]) -> Float[Tensor, "*batch n k"]:
    """x @ y, with derivatives of any order."""
    return _Product.apply(x, y) if _is_large(x, y) else x @ y


def linear(
    x: Float[Tensor, "*batch inputs"],
    weight: Float[Tensor, "outputs inputs"],
    bias: Float[Tensor, " outputs"] | None = None,
) -> Float[Tensor, "*batch outputs"]:
    """`torch.nn.functional.linear`, likewise: x Wᵀ + b."""
    rows = x.flatten(0, -2) if x.dim() > 1 else x
    if not _is_large(rows, weight.mT):
        return nn.functional.linear(x, weight, bias)
    y = product(rows, weight.mT).unflatten(0, x.shape[:-1])
    return y if bias is None else y + bias


def by_onednn(x: Float[Tensor, "n m"], y: Float[Tensor, "m k"]) -> Float[Tensor, "n k"]:
    """x @ y without a derivative, of any size."""
    z: Tensor = torch.ops.mkldnn._linear_pointwise(x, dense(y).mT, None, "none", [], "")
    return z


def dense(y: Float[Tensor, "m k"]) -> Float[Tensor, "m k"]:
    """A matrix without gaps in memory, by rows or by columns: oneDNN has no fast way for parts of larger ones."""
    return y if y.is_contiguous() or y.mT.is_contiguous() else y.contiguous()


def _is_large(x: Tensor, y: Tensor) -> bool:
    """Whether these are large float32 matrices on the CPU, in plain code."""
    return (
        AVAILABLE
        and not torch.compiler.is_compiling()  # first: sizes may be symbols
        and min(x.dim(), y.dim()) > 1
        and x.numel() > 0 < y.numel()
        and x.shape[-2] * y.shape[-2] * y.shape[-1] >= LEAST
        and y.shape[-2] <= LONGEST * min(x.shape[-2], y.shape[-1])
        and x.shape[-1] == y.shape[-2]  # else torch says what is wrong
        and x.dtype == y.dtype == torch.float32
        and x.device.type == y.device.type == "cpu"
        and not torch.is_autocast_enabled("cpu")
        and not torch._C._are_functorch_transforms_active()
    )


def _products(x: Tensor, y: Tensor) -> Tensor:
    batch = torch.broadcast_shapes(x.shape[:-2], y.shape[:-2])
    if math.prod(batch) == 1:
        z = by_onednn(x.reshape(x.shape[-2:]), y.reshape(y.shape[-2:]))
        return z.reshape(*batch, *z.shape)
    xs, ys = (part.expand(*batch, *part.shape[-2:]).flatten(0, -3) for part in (x, y))
    return torch.stack([by_onednn(*pair) for pair in zip(xs, ys, strict=True)]).unflatten(0, batch)


class _Product(torch.autograd.Function):
    """`product` of large matrices: oneDNN's operator has no derivative of its own."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, y: Tensor) -> Tensor:
        ctx.save_for_backward(x, y)
        ctx.save_for_forward(x, y)
        return _products(x, y)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, Tensor | None]:
        x, y = ctx.saved_tensors
        needs_x, needs_y = ctx.needs_input_grad
        return (
            product(grad, y.mT).sum_to_size(x.shape) if needs_x else None,
            product(x.mT, grad).sum_to_size(y.shape) if needs_y else None,
        )

    @staticmethod
    def jvp(ctx: Any, dx: Tensor | None, dy: Tensor | None) -> Tensor:
        x, y = ctx.saved_tensors
        parts = ([] if dx is None else [product(dx, y)]) + ([] if dy is None else [product(x, dy)])
        return sum(parts[1:], start=parts[0])
