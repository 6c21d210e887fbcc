"""Torch's defaults while niso trains or loads: those of a new process."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

import torch


@contextmanager
def new_defaults() -> Iterator[None]:
    """New tensors are float32, on the CPU, and keep gradients, whatever a program has set; afterwards it is as it
    was."""
    dtype = torch.get_default_dtype()
    elsewhere = torch.get_default_device().type != "cpu"  # where it is not, each operation would be looked at in vain
    torch.set_default_dtype(torch.float32)
    try:
        with torch.device("cpu") if elsewhere else nullcontext(), torch.inference_mode(False), torch.enable_grad():
            yield
    finally:
        torch.set_default_dtype(dtype)
