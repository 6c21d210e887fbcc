"""The polar factor and its derivative by matrix products alone, in float64: a scaled Newton–Schulz iteration.

No step depends on a value, so the host waits for nothing and a CUDA graph can hold it all. It takes some 350 products,
which only a GPU does faster than an SVD, and there only where they are started at once, as from a CUDA graph.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import cache
from typing import Any

import torch
from jaxtyping import Float, Float64
from torch import Tensor

LEAST = 33
"""Columns from which it pays on a GPU. SVDs of smaller matrices are done at once there for a whole batch; those of
larger ones take their turns (benchmarks/results/gpu-steps.json)."""
LOWEST = 1e-20
"""The smallest singular value, relative to the largest, that the factor takes to 1."""
OFFSET = 1e-14
"""Of the identity, this is added to matrices: where they lack rank, the factor is then orthogonal all the same."""
CUSHION = 0.47
"""Steps are scaled as for values of at least this: above 0.46 none drives neighbouring values apart."""


def pays(m: Float[Tensor, "*batch n k"], special: bool, damping: float) -> bool:
    """Whether compiled programs take these matrices' factor by products: the rest is not to be had so.

    Nor are float64 matrices: products in float64 keep no digit beyond their own, and where such matrices lack rank,
    derivatives are a few percent off.
    """
    return m.device.type == "cuda" and m.dtype == torch.float32 and m.shape[-1] >= LEAST and not special and not damping


def polar(m: Float[Tensor, "*batch n k"]) -> Float[Tensor, "*batch n k"]:
    """`niso.polar` of tall or square matrices; it has first derivatives in reverse mode.

    Singular values at most n times the rounding unit count as zero beside the largest (in square matrices half of
    that), about as in `niso.polar`; those nearer to that bound than a hundredth do so in part. Matrices that hold NaN
    or infinite entries give NaN.
    """
    q: Tensor = torch.ops.niso.polar_by_products(m)[0]
    return q


@cache
def steps(lowest: float) -> tuple[tuple[float, float], ...]:
    """(a, b) of the steps x ← a x + b x³ that take every x in [lowest, 1] to 1.

    Scaled so that the lowest value rises most (Chen and Chow, "A stable scaling of Newton–Schulz", 2014).
    """
    found = []
    while 1 - lowest > 1e-14:
        width = 1 + max(lowest, CUSHION) + max(lowest, CUSHION) ** 2
        a = 1.5 * math.sqrt(3 / width)
        b = -a / width
        found.append((a, b))
        lowest = min(a * lowest + b * lowest**3, a + b)
    return tuple(found)


# Both operators are opaque to the compiler, which would take its time over hundreds of products.


@torch.library.custom_op("niso::polar_by_products", mutates_args=(), schema="(Tensor m) -> (Tensor, Tensor)")
def _factor(m: Tensor) -> tuple[Tensor, Tensor]:
    """(Q, Q in float64): the derivative needs all digits."""
    x, _ = _normalised(m)
    n, k = m.shape[-2:]
    x = x + OFFSET * torch.eye(n, k, dtype=x.dtype, device=x.device)
    q = _iterate(x, steps(LOWEST))
    return q.to(m.dtype), q if m.dtype != q.dtype else q.clone()


@_factor.register_fake
def _(m: Tensor) -> tuple[Tensor, Tensor]:
    return m.new_empty(m.shape), m.new_empty(m.shape, dtype=torch.float64)


@torch.library.custom_op(
    "niso::polar_by_products_gradient", mutates_args=(), schema="(Tensor grad, Tensor m, Tensor q) -> Tensor"
)
def _gradient(grad: Tensor, m: Tensor, q: Tensor) -> Tensor:
    """The derivative of the factor in the direction `grad`: it is its own adjoint.

    It is that of the iteration, from a matrix whose singular values that count as zero are raised, without the parts
    of `grad` that would rotate their vectors.
    """
    n, k = m.shape[-2:]
    relative = torch.finfo(m.dtype).eps * n
    if n == k:
        relative /= 2  # of square matrices sums of two values count, not the values themselves
    x, scale = _normalised(m)
    h = q.mT @ x
    h = (h + h.mT) / 2
    floor = relative * _largest(h)
    eye = torch.eye(k, dtype=x.dtype, device=x.device)
    sign = h - floor * eye
    for a, b in steps(1e-2 * relative / math.sqrt(k)):
        sign = a * sign + b * (sign @ (sign @ sign))
    null = (eye - sign) / 2  # the projection on singular vectors whose values count as zero
    x = x + floor * (q @ null)
    size = torch.linalg.matrix_norm(x, keepdim=True)
    tangent = _iterate(x / size, steps(relative / (2 * math.sqrt(k))), _outside(grad.double(), q, null))
    gradient = _outside(tangent, q, null) / (scale * size)
    return gradient.masked_fill(scale <= torch.finfo(scale.dtype).tiny, 0).to(m.dtype)  # of x = 0 rounding is left


@_gradient.register_fake
def _(grad: Tensor, m: Tensor, q: Tensor) -> Tensor:
    return m.new_empty(m.shape)


def _set_up(ctx: Any, inputs: tuple[Any, ...], output: tuple[Any, ...]) -> None:
    ctx.mark_non_differentiable(output[1])
    ctx.save_for_backward(inputs[0], output[1])


def _backward(ctx: Any, grad: Tensor, _: Tensor | None) -> Tensor:
    gradient: Tensor = torch.ops.niso.polar_by_products_gradient(grad, *ctx.saved_tensors)
    return gradient


_factor.register_autograd(_backward, setup_context=_set_up)


def _normalised(m: Float[Tensor, "*batch n k"]) -> tuple[Float64[Tensor, "*batch n k"], Float64[Tensor, "*batch 1 1"]]:
    """Matrices of Frobenius norm 1, or 0, and what they were divided by."""
    x = m.double()
    largest = x.abs().amax((-2, -1), keepdim=True).clamp_min(torch.finfo(x.dtype).tiny)  # its square may overflow
    x = x / largest
    size = torch.linalg.matrix_norm(x, keepdim=True).clamp_min(1)  # it is at least 1 but where x is 0
    return x / size, largest * size


def _largest(h: Float64[Tensor, "*batch k k"]) -> Float64[Tensor, "*batch 1 1"]:
    """About the largest eigenvalue of positive semidefinite matrices of norm 1: it is k^(1/64) too large at most."""
    power = h
    for _ in range(5):
        power = power @ power
    return torch.linalg.matrix_norm(power, keepdim=True).pow(1 / 32).clamp_min(1 / h.shape[-1])  # of h = 0, too


def _iterate(
    x: Float64[Tensor, "*batch n k"],
    coefficients: Iterable[tuple[float, float]],
    tangent: Float64[Tensor, "*batch n k"] | None = None,
) -> Float64[Tensor, "*batch n k"]:
    """x ← a x + b x xᵀx, or its derivative in the direction `tangent`."""
    batch = x.shape[:-2]
    x = x.flatten(0, -3) if batch else x[None]
    e = None if tangent is None else tangent.expand(*batch, *x.shape[-2:]).reshape(x.shape)
    for a, b in coefficients:
        gram = x.mT @ x
        if e is not None:
            change = e.mT @ x
            e = torch.baddbmm(e, e, gram, beta=a, alpha=b)
            e = torch.baddbmm(e, x, change + change.mT, alpha=b)
        x = torch.baddbmm(x, x, gram, beta=a, alpha=b)
    return (x if e is None else e).reshape(*batch, *x.shape[-2:])


def _outside(
    direction: Float64[Tensor, "*batch n k"], q: Float64[Tensor, "*batch n k"], null: Float64[Tensor, "*batch k k"]
) -> Float64[Tensor, "*batch n k"]:
    """A direction without its part from null vectors to null vectors, and to the complement of Q's columns."""
    part = direction @ null
    inner = q.mT @ part
    return direction - part + q @ (inner - null @ inner)
