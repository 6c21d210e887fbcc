"""Batches of data that are read while the model is trained on those before."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Generic, TypeVar

T = TypeVar("T")


class Ahead(Generic[T]):
    """Calls a function of the step, and already for the next step in a thread while this one is trained on.

    Args:
        function: of the step alone: it must not draw from torch's global generators.
        steps: how many there are.
    """

    def __init__(self, function: Callable[[int], T], steps: int) -> None:
        self.function, self.steps = function, steps
        self.thread = ThreadPoolExecutor(1)
        self.pending: tuple[int, Future[T]] | None = None

    def __call__(self, step: int) -> T:
        pending, self.pending = self.pending, None
        if pending is not None and pending[0] == step:
            result = pending[1].result()
        else:
            result = self.function(step)
        if step + 1 < self.steps:
            self.pending = step + 1, self.thread.submit(self.function, step + 1)
        return result
