"""Batches of data that are read while the model is trained on those before."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Generic, TypeVar

from niso.data.workers import cores

T = TypeVar("T")

WORKERS = 4
"""Threads that read ahead, where there are as many cores: JPEG files are decoded outside of Python's lock."""


class Ahead(Generic[T]):
    """Calls a function of the step, and already for the next steps in threads while this one is trained on.

    Args:
        function: of the step alone: it must not draw from torch's global generators.
        steps: how many there are.
        workers: threads, and how many steps are read ahead; by default as many as cores, at most `WORKERS`.
    """

    def __init__(self, function: Callable[[int], T], steps: int, workers: int | None = None) -> None:
        self.function, self.steps = function, steps
        self.workers = workers or min(cores(), WORKERS)
        self.threads = ThreadPoolExecutor(self.workers)
        self.pending = dict[int, Future[T]]()

    def __call__(self, step: int) -> T:
        wanted = range(step, max(step + 1, min(step + 1 + self.workers, self.steps)))
        for other in self.pending.keys() - wanted:
            self.pending.pop(other).cancel()
        for other in wanted:
            if other not in self.pending:
                self.pending[other] = self.threads.submit(self.function, other)
        return self.pending.pop(step).result()
