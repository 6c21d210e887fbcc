"""Full precision, also under autocast: spectra and maps need it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import wraps
from typing import ParamSpec, TypeVar

import torch
from jaxtyping import Float
from torch import Tensor

from niso.linalg.products import product

P = ParamSpec("P")
R = TypeVar("R")


_AUTOCASTING = frozenset(kind for kind in ("cpu", "cuda", "mps", "xpu") if torch.amp.is_autocast_available(kind))
"""Types of devices that know autocast: asked for once, as torch.compile does not know what asks."""


def autocasts(device: str) -> bool:
    """Whether autocast is on for a type of device."""
    return device in _AUTOCASTING and torch.is_autocast_enabled(device)


def without_autocast(device: str) -> AbstractContextManager[object]:
    """A context without autocast on a type of device; none at all where it is off, which is cheaper."""
    return torch.autocast(device, enabled=False) if autocasts(device) else nullcontext()


def full_precision(function: Callable[P, R]) -> Callable[P, R]:
    """Decorate `function` to run outside autocast with all floating-point tensors in one dtype, float32 or wider.

    Spectra and maps need this: there is no half-precision SVD, and bfloat16 loses orthogonality. Only tensors that
    are arguments themselves are converted, not tensors inside containers.

    Where a program lets torch round products of float32 matrices, as by `torch.set_float32_matmul_precision("high")`,
    these are rounded here as well: `niso.fit`, `niso.load` and runs turn that off while they train or load.
    """
    call: Callable[..., R] = function

    @wraps(function)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> R:
        tensors = [v for v in (*args, *kwargs.values()) if isinstance(v, Tensor) and v.is_floating_point()]
        if not tensors:
            return function(*args, **kwargs)
        dtype = torch.float32
        for tensor in tensors:
            dtype = torch.promote_types(dtype, tensor.dtype)
        device = tensors[0].device.type
        if not autocasts(device) and all(tensor.dtype == dtype for tensor in tensors):  # the usual call, kept cheap
            return function(*args, **kwargs)

        def raised(value: object) -> object:
            return value.to(dtype) if isinstance(value, Tensor) and value.is_floating_point() else value

        with without_autocast(device):
            return call(*map(raised, args), **{name: raised(value) for name, value in kwargs.items()})

    return wrapped


@full_precision
def matmul(x: Float[Tensor, "*#batch n m"], y: Float[Tensor, "*#batch m k"]) -> Float[Tensor, "*batch n k"]:
    """x @ y in full precision, also under autocast: spectra and maps are applied by it."""
    return product(x, y)
