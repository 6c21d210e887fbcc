"""The Sylvester equation of symmetric matrices, from which derivatives of matrix functions are built."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd import forward_ad


class Sylvester(torch.autograd.Function):
    """X with H X + X H = C for symmetric H = V S Vᵀ, given too as S and Vᵀ; 0 where a sum of S is at most `floor`.

    Differentiable in H and C, any number of times, without derivatives of V and S.
    """

    @staticmethod
    def forward(h: Tensor, c: Tensor, s: Tensor, vh: Tensor, floor: Tensor) -> Tensor:
        return vh.mT @ divide(vh @ c @ vh.mT, s[..., :, None] + s[..., None, :], floor) @ vh

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        h, _, s, vh, floor = inputs
        ctx.save_for_backward(h, output, s, vh, floor)
        ctx.save_for_forward(h, output, s, vh, floor)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        h, x, s, vh, floor = ctx.saved_tensors
        z = Sylvester.apply(h, grad, s, vh, floor)
        return -(z @ x.mT + x.mT @ z), z, None, None, None

    @staticmethod
    def jvp(ctx: Any, dh: Tensor, dc: Tensor, *constant: Tensor) -> Tensor:
        with nested_forward_mode():
            h, x, s, vh, floor = map(primal, ctx.saved_tensors)
            return Sylvester.apply(h, dc - dh @ x - x @ dh, s, vh, floor)

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int | None, ...], *tensors: Tensor) -> tuple[Tensor, int]:
        pairs = zip(tensors, in_dims, strict=True)
        batched = (x.expand(info.batch_size, *x.shape) if dim is None else x.movedim(dim, 0) for x, dim in pairs)
        return Sylvester.apply(*batched), 0


def divide(x: Tensor, y: Tensor, floor: Tensor) -> Tensor:
    """x/y, and 0 where y is at most `floor`: a pseudo-inverse."""
    return (x / y).masked_fill_(y <= floor, 0)


def nested_forward_mode() -> Any:
    """Forward mode of outer levels, which PyTorch turns off in a `jvp` (so jacfwd(jacfwd) is wrong, issue 197867)."""
    return forward_ad._set_fwd_grad_enabled(True)


def primal(x: Tensor) -> Tensor:
    """A saved tensor without its tangent of the present level."""
    return forward_ad.unpack_dual(x).primal
