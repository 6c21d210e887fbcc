"""Torch's defaults while niso trains or loads: those of a new process."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import torch


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
            yield
    finally:
        torch.set_default_dtype(dtype)
