"""The same work on many items in several processes; only the items at work are in memory."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from itertools import islice
from types import ModuleType
from typing import TypeVar

from niso.errors import InputError

Item = TypeVar("Item")
Result = TypeVar("Result")

_MOST = 61
"""Processes that Windows can wait for at once."""


def cores() -> int:
    """Cores that this process may use, or has the time of: a container may see all cores of its machine."""
    import joblib  # takes a fifth of a second

    return int(joblib.cpu_count())


def unordered(function: Callable[[Item], Result], items: Iterable[Item], workers: int) -> Iterator[Result]:
    """Results of a function of each item, in any order; 2 items a worker are taken ahead.

    Args:
        function: of a module that can be imported, not of a script; it, items and results can be pickled.
        workers: processes, of one thread each; 1 works in this process.

    Raises:
        InputError: `workers` is not positive, or a process was killed; whatever the function raises.
    """
    if workers < 1:
        raise InputError(f"workers must be at least 1, got {workers}")
    return map(function, items) if workers == 1 else _in_processes(function, iter(items), workers)


def _in_processes(function: Callable[[Item], Result], items: Iterator[Item], workers: int) -> Iterator[Result]:
    context = multiprocessing.get_context("spawn")  # a fork would copy locks of torch's threads
    workers = min(workers, _MOST) if sys.platform == "win32" else workers
    with _silent_tracker():
        pool = ProcessPoolExecutor(workers, context, _start)
    with pool:
        pending = set[Future[Result]]()
        try:
            while True:
                for item in islice(items, 2 * workers - len(pending)):
                    with _main_hidden():
                        pending.add(pool.submit(function, item))
                if not pending:
                    return
                done, pending = wait(pending, return_when=FIRST_COMPLETED)
                yield from (job.result() for job in done)
        except BrokenProcessPool as error:
            problem = "a process was killed, perhaps for memory: give the same command again to go on"
            raise InputError(problem) from error
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


@contextmanager
def _silent_tracker() -> Iterator[None]:
    """Where the first process is ended by a signal, one of Python's own frees the semaphores: it calls them leaked."""
    before = sys.warnoptions.copy()
    sys.warnoptions.append("ignore:resource_tracker")  # which that process is started with
    try:
        yield
    finally:
        sys.warnoptions[:] = before


@contextmanager
def _main_hidden() -> Iterator[None]:
    """Hide the main module from new processes: they would run a script without `if __name__ == "__main__"` again."""
    main = sys.modules["__main__"]
    sys.modules["__main__"] = ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = main


def _start() -> None:
    os.environ["OMP_NUM_THREADS"] = "1"  # read when NumPy and torch are imported, with the function
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:  # as of jobs in the background
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # the first process reports it
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """Workers whose parent was killed would wait for work for ever."""
    parent = multiprocessing.parent_process()
    if parent:
        parent.join()
        os._exit(1)
