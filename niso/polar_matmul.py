"""The polar factor and its gradient by matrix products alone, for devices whose batched SVD is slow.

Everything is an iteration x ← a x + b x³ on singular values or eigenvalues in (0, 1], which it drives to 1. This is
Newton–Schulz, scaled so that the lowest value rises most (Chen and Chow, "A stable scaling of Newton–Schulz", 2014),
and held back so that none falls far (as in Amsel et al., "The Polar Express", 2025). No decision depends on the data: a
GPU waits for nothing, and the whole can be captured in a graph.

All of it is in float64: in float32, rounding costs a matrix of condition κ about κ · 1e-7 of its factor, as it costs
the float32 SVD. Use `niso.polar`, which checks its arguments and knows when to come here.
"""

from __future__ import annotations

import math

import torch
from jaxtyping import Float
from torch import Tensor

FAST, STABLE = 0.1, 0.47
"""Cushions. Above 0.46 a step's fixed point attracts; below, neighbouring values are driven apart. A polar factor does
not feel that, its gradient does (1e-8 instead of 1e-15 of it)."""


def coefficients(lowest: float, cushion: float) -> list[tuple[float, float]]:
    """(a, b) of the steps x ← a x + b x³ that take every x in [lowest, 1] to 1, to float64's rounding.

    Each maps [max(lowest, cushion), 1] onto [p, 1] with p as high as possible, so that 1 is the peak of its cubic.
    """
    steps = []
    while 1 - lowest > 1e-14:
        low = max(lowest, cushion)
        width = 1 + low + low**2
        a = 1.5 * math.sqrt(3 / width)
        b = -a / width
        steps.append((a, b))
        lowest = min(a * lowest + b * lowest**3, a + b)
    return steps


class MatmulPolar(torch.autograd.Function):
    """Polar factor of tall or square matrices, with the exact gradient."""

    @staticmethod
    def forward(ctx, m):  # type: ignore[no-untyped-def]  # autograd.Function's own convention
        q = torch.ops.niso.polar_factor(m) if torch.compiler.is_compiling() else polar_factor(m)
        ctx.save_for_backward(m, q)
        return q

    @staticmethod
    def backward(ctx, grad):  # type: ignore[no-untyped-def]  # as forward
        refuse_second_derivatives()
        operator = torch.ops.niso.polar_gradient if torch.compiler.is_compiling() else polar_gradient
        return operator(grad, *ctx.saved_tensors)


def refuse_second_derivatives() -> None:
    """To be called in a backward pass to which the saved factors are constants, under `create_graph=True` too."""
    if torch.is_grad_enabled() and not torch.compiler.is_compiling():
        raise NotImplementedError("polar has first derivatives only; its gradient cannot be differentiated")


def polar_factor(m: Float[Tensor, "*batch n k"]) -> Float[Tensor, "*batch n k"]:
    """U Vᵀ of tall or square matrices m = U S Vᵀ.

    A null space is completed by what a fixed matrix does to it: arbitrary as the SVD's completion is, but it does not
    jump. A matrix with entries that are not finite gives NaN.
    """
    # at condition 1e6 the fixed matrix changes the factor of a float32 matrix by 1e-6
    share = 1e-12 if m.dtype == torch.float32 else torch.finfo(m.dtype).eps
    scaled, _ = _scaled(m)
    x = scaled + share * _fixed(m)
    for a, b in coefficients(1e-4 * share, FAST):  # 1e-4: restricted to a null space, it is ill-conditioned
        x = _add(x, x @ (x.mT @ x), a, b)
    return x.to(m.dtype)


def polar_gradient(
    grad: Float[Tensor, "*batch n k"], m: Float[Tensor, "*batch n k"], q: Float[Tensor, "*batch n k"]
) -> Float[Tensor, "*batch n k"]:
    """Gradient with respect to m of a function of q = polar_factor(m) whose gradient with respect to q is `grad`.

    Q X + (I − Q Qᵀ) G H⁻¹ with H = Qᵀ m and H X + X H = Qᵀ G − Gᵀ Q, which is what `niso.linalg` computes by the SVD.
    As there, it is zero along directions in which the factor is not unique to the rounding of m.
    """
    scaled, scale = _scaled(m)
    q, grad = q.double(), grad.double()
    n, k = m.shape[-2:]
    floor = n * torch.finfo(m.dtype).eps
    h = q.mT @ scaled
    h = (h + h.mT) / 2
    null = _null_projector(h, floor)
    a = q.mT @ grad
    c = a - a.mT
    cnull = c @ null
    within = c - cnull + cnull.mT + null @ cnull  # (I − N) c (I − N)
    x, inverse = _sylvester(h + null / 2, within, floor / 2)  # null eigenvalues are no longer small
    inverse = inverse - null @ inverse
    across = inverse @ cnull  # from null space to range, where h X + X h = h X
    inner = q @ (x + across - across.mT)
    if n > k:
        inner = inner + (grad - q @ a) @ inverse
    return (inner / scale).to(m.dtype)


def _sylvester(
    h: Float[Tensor, "*batch k k"], c: Float[Tensor, "*batch k k"], lowest: float
) -> tuple[Float[Tensor, "*batch k k"], Float[Tensor, "*batch k k"]]:
    """(X, h⁻¹) with h X + X h = c for symmetric h with eigenvalues in [lowest, 1] and skew c.

    The sign of the block matrix [[h, c], [0, −h]] is [[I, 2X], [0, −I]], and the iteration finds it as well (Higham,
    "Functions of Matrices", 2008, §2.4). The cube of such a matrix is [[h³, h²c − hch + ch²], [0, −h³]]. h⁻¹ is the
    product of what the steps multiply h by.
    """
    k = h.shape[-1]
    inverse = torch.eye(k, dtype=h.dtype, device=h.device).expand_as(h)
    for a, b in coefficients(lowest, STABLE):
        hc, square = (h @ torch.cat([c, h], dim=-1)).split(k, dim=-1)
        inverse = _add(inverse, square @ inverse, a, b)
        hhc, hch, cube = (h @ torch.cat([hc, -hc.mT, square], dim=-1)).split(k, dim=-1)  # ch = −(hc)ᵀ
        c = _add(c, hhc - hch - hhc.mT, a, b)
        h = _add(h, cube, a, b)
    return c / 2, inverse


def _null_projector(h: Float[Tensor, "*batch k k"], floor: float) -> Float[Tensor, "*batch k k"]:
    """Onto the eigenvectors of symmetric h with eigenvalues below floor, smoothly within a quarter of it."""
    identity = torch.eye(h.shape[-1], dtype=h.dtype, device=h.device)
    sign = h - floor * identity
    for a, b in coefficients(floor / 4, STABLE):
        sign = _add(sign, sign @ (sign @ sign), a, b)
    return (identity - sign) / 2


@torch.library.custom_op("niso::polar_factor", mutates_args=(), schema="(Tensor m) -> Tensor")
def _factor_operator(m: Tensor) -> Tensor:
    """`polar_factor`, opaque to torch.compile and torch.export: tracing its hundreds of steps takes a minute."""
    return polar_factor(m).contiguous()


@torch.library.custom_op("niso::polar_gradient", mutates_args=(), schema="(Tensor grad, Tensor m, Tensor q) -> Tensor")
def _gradient_operator(grad: Tensor, m: Tensor, q: Tensor) -> Tensor:
    return polar_gradient(grad, m, q).contiguous()


@_factor_operator.register_fake
def _factor_shape(m: Tensor) -> Tensor:
    return m.new_empty(m.shape)


@_gradient_operator.register_fake
def _gradient_shape(grad: Tensor, m: Tensor, q: Tensor) -> Tensor:
    return m.new_empty(m.shape)


def _add(x: Tensor, y: Tensor, a: float, b: float) -> Tensor:
    """a x + b y."""
    return torch.add(a * x, y, alpha=b)


def _scaled(m: Float[Tensor, "*batch n k"]) -> tuple[Float[Tensor, "*batch n k"], Float[Tensor, "*batch 1 1"]]:
    """m / s and s in float64, with s such that no singular value of m / s is above 1 and the largest not far below."""
    m = m.double()
    largest = _or_one(m.abs().amax((-2, -1), keepdim=True))  # first, so that no square overflows
    m = m / largest
    norm = _or_one(torch.linalg.matrix_norm(m.mT @ m, keepdim=True).sqrt()) * (1 + 1e-12)  # (Σ σ⁴)^¼
    return m / norm, norm * largest


def _or_one(x: Tensor) -> Tensor:
    return torch.where(x == 0, 1.0, x)


def _fixed(m: Tensor) -> Float[Tensor, "n k"]:
    """A matrix of the shape of m that looks like uniform noise, but needs no generator, and so can be traced."""
    rows, columns = (torch.arange(1, size + 1, dtype=torch.float64, device=m.device) for size in m.shape[-2:])
    waves = 43758.5453 * torch.sin(12.9898 * rows[:, None] + 78.233 * columns)
    return (waves - waves.floor() - 0.5) * math.sqrt(3 / len(rows))
