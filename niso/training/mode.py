"""The mode of a module, training or evaluation, for a while."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

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
