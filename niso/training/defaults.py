"""Torch's defaults while niso trains or loads: those of a new process."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import Any

import torch


def rounds_products() -> bool:
    """Whether products of float32 matrices may be rounded, as a program can ask of torch."""
    if switches := _switches():
        return any(switch.fp32_precision not in ("none", "ieee") for switch in switches)
    return torch.get_float32_matmul_precision() != "highest"


def _switches() -> list[Any]:
    """Torch's newer switches of that, one for each library; none before torch 2.9."""
    places = (getattr(library, "matmul", None) for library in (torch.backends.cuda, torch.backends.mkldnn))
    return [place for place in places if hasattr(place, "fp32_precision")]


@contextmanager
def _unrounded_products() -> Iterator[None]:
    """Products of float32 matrices are not rounded; afterwards they are as before."""
    if not rounds_products():
        yield
        return
    kept, rounded = [(switch, switch.fp32_precision) for switch in _switches()], None
    with suppress(RuntimeError):  # where the program used a newer switch, which the older one does not tell
        rounded = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("highest")
    try:
        yield
    finally:
        if rounded is not None:
            torch.set_float32_matmul_precision(rounded)
        else:
            for switch, precision in kept:
                switch.fp32_precision = precision


@contextmanager
def new_defaults() -> Iterator[None]:
    """New tensors are float32, on the CPU, and keep gradients, and nothing is computed in lower precision, whatever a
    program has set; afterwards it is as it was."""
    dtype = torch.get_default_dtype()
    torch.set_default_dtype(torch.float32)
    try:
        with ExitStack() as stack:
            stack.enter_context(torch.inference_mode(False))
            stack.enter_context(torch.enable_grad())
            if torch.empty(0).device.type != "cpu":  # elsewhere each operation would be looked at in vain
                stack.enter_context(torch.device("cpu"))
            for device in ("cpu", "cuda"):
                if torch.is_autocast_enabled(device):
                    stack.enter_context(torch.autocast(device, enabled=False))
            stack.enter_context(_unrounded_products())
            yield
    finally:
        torch.set_default_dtype(dtype)
