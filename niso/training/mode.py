"""Modules for a while: in training or evaluation mode, and with buffers that come back."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import nn


@contextmanager
def in_mode(module: nn.Module, training: bool) -> Iterator[None]:
    """All parts of a module in training or evaluation mode; afterwards each is in its own again."""
    before = {part: part.training for part in module.modules()}
    module.train(training)
    try:
        yield
    finally:
        for part, was in before.items():
            part.training = was


@contextmanager
def buffers_kept(*modules: nn.Module) -> Iterator[None]:
    """Afterwards the buffers of modules, such as running means and vectors of spectral norms, have the values of
    before."""
    buffers = [(buffer, buffer.clone()) for module in modules for buffer in module.buffers()]
    try:
        yield
    finally:
        with torch.no_grad():
            for buffer, before in buffers:
                buffer.copy_(before)
