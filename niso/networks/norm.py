"""Normalisations followed by SiLU: of each channel over space, or of all channels at each point."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.autograd.function import once_differentiable


class _InstanceNormSiLU(torch.autograd.Function):
    """Keeps the input and its two statistics for the backward pass; everything else is recomputed there.

    Written with plain sums over space: on a CPU `torch.var_mean` and the group-norm kernels are several times
    slower on channels-last tensors, and the composition of both layers keeps three activations, not one.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor, eps: float) -> Tensor:
        weight, bias = weight[:, None, None], bias[:, None, None]
        # Half-precision inputs are normalised in float32: the statistics promote everything that follows.
        mean = x.mean((2, 3), keepdim=True, dtype=torch.promote_types(x.dtype, torch.float32))
        centred = x - mean
        variance = centred.square().mean((2, 3), keepdim=True)  # centred first: a large mean costs no digits
        inverse = torch.rsqrt(variance + eps)
        y = torch.addcmul(bias, centred, weight * inverse)
        ctx.save_for_backward(x, weight, bias, mean, inverse)
        # Under autocast, torch 2.11 loses the gradient of a result that compiled code wrote in place, or converted to
        # the precision that it has.
        y = nn.functional.silu(y, inplace=not torch.compiler.is_compiling())
        return y if y.dtype == x.dtype else y.to(x.dtype)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, Tensor, None]:
        x, weight, bias, mean, inverse = ctx.saved_tensors
        points = x.shape[2] * x.shape[3]
        normalised = torch.addcmul(-mean * inverse, x, inverse)
        y = torch.addcmul(bias, normalised, weight)
        grad = torch.ops.aten.silu_backward(grad.to(y.dtype), y)
        grad_bias = grad.sum((2, 3), keepdim=True)
        grad_weight = (grad * normalised).sum((2, 3), keepdim=True)
        # weight * inverse * (grad - mean(grad) - normalised * mean(grad * normalised))
        scale = weight * inverse
        grad_x = torch.addcmul(grad, normalised, grad_weight / -points)
        grad_x = torch.addcmul(grad_bias * scale / -points, grad_x, scale)
        return grad_x.to(x.dtype), grad_weight.sum((0, 2, 3)), grad_bias.sum((0, 2, 3)), None


class _NormSiLU(nn.Module):
    """What both layers learn: a scale and a shift of each channel."""

    eps = 1e-6
    """Added to the variance (released code)."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(channels))
        self.bias = nn.Parameter(torch.zeros(channels))


class InstanceNormSiLU(_NormSiLU):
    """Normalises each channel of each example over space, scales and shifts it, and applies SiLU.

    Equal to `silu(instance_norm(x))`, in less memory and, channels last on a CPU, faster. It can be
    differentiated once, not twice. Half-precision inputs are normalised in float32.
    """

    def forward(self, x: Float[Tensor, "batch channel *space"]) -> Float[Tensor, "batch channel *space"]:
        if x.ndim != 4:  # signals and volumes
            return self(x.flatten(2)[..., None]).reshape(x.shape)
        return _InstanceNormSiLU.apply(x, self.weight, self.bias, self.eps)


class ChannelNormSiLU(_NormSiLU):
    """Normalises the channels at each point of each example, scales and shifts them, and applies SiLU.

    Unlike `InstanceNormSiLU` it keeps what a whole image has: colour, contrast, the level of a signal. No pixel changes
    what others become, so that a background does not. It is layer normalisation at each point (Liu et al., "A ConvNet
    for the 2020s", CVPR 2022), and one fused kernel where channels are last. Not in the paper.
    """

    def forward(self, x: Float[Tensor, "batch channel *space"]) -> Float[Tensor, "batch channel *space"]:
        y = nn.functional.layer_norm(x.movedim(1, -1), self.weight.shape, self.weight, self.bias, self.eps)
        return nn.functional.silu(y).movedim(-1, 1)


Normalised = Literal["space", "channels"]
"""What networks normalise: each channel over space, as in the paper, or the channels at each point."""
NORMS: dict[Normalised, Callable[[int], nn.Module]] = {"space": InstanceNormSiLU, "channels": ChannelNormSiLU}
"""A layer for a number of channels, of each kind."""
