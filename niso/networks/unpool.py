"""Nearest-neighbour unpooling, the way back of a mean pool."""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.functional import avg_pool1d, avg_pool2d, avg_pool3d, interpolate


class _Unpool(torch.autograd.Function):
    """Its gradient is a mean pool, which gathers.

    Torch's own scatters, and torch.compile 2.13 can lose that scatter in half precision: the gradient is zero then.
    """

    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor) -> Tensor:
        return interpolate(x, scale_factor=2.0, mode="nearest")

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor], output: Tensor) -> None:
        pass

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        pool = {3: avg_pool1d, 4: avg_pool2d, 5: avg_pool3d}[grad.ndim]
        return pool(grad, 2) * 2 ** (grad.ndim - 2)


class Unpool(nn.Module):
    """Doubles the sides of images and volumes, or the length of signals: each value is repeated along each axis."""

    def forward(self, x: Float[Tensor, "batch channel *space"]) -> Float[Tensor, "batch channel *doubled"]:
        return _Unpool.apply(x)
