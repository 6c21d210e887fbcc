"""Batches that threads read from disk while the model is trained on earlier ones."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Generic, TypeVar

from niso.data.workers import cores

T = TypeVar("T")

WORKERS = 4
"""Most threads that read ahead, one a core: JPEG files are decoded outside of Python's lock."""


class Ahead(Generic[T]):
    """Calls a function of the step, and in threads already for the next steps.

    Args:
        function: depends on the step alone: it must not draw from torch's global generators.
        workers: number of threads, and of steps read ahead; by default that of the cores, at most `WORKERS`.
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
