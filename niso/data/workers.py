"""The same work on many things, in several processes, without having all of them in memory."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from itertools import islice
from typing import TypeVar

import torch

from niso.errors import InputError

Item = TypeVar("Item")
Result = TypeVar("Result")


def cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0))


def unordered(function: Callable[[Item], Result], items: Iterable[Item], workers: int = 1) -> Iterator[Result]:
    """Results of a function of each item, in any order; 2 items a worker are taken ahead.

    Args:
        function: can be pickled, as items and results can.
        workers: processes; 1 works in this one.

    Raises:
        InputError: `workers` is not positive, or a process was killed; whatever the function raises.
    """
    if workers < 1:
        raise InputError(f"workers must be at least 1, got {workers}")
    if workers == 1:
        yield from map(function, items)
        return
    remaining = iter(items)
    context = multiprocessing.get_context("spawn")  # a fork would copy locks of torch's threads
    with ProcessPoolExecutor(workers, context, _start) as pool:
        pending: set[Future[Result]] = set()
        try:
            while True:
                pending |= {pool.submit(function, item) for item in islice(remaining, 2 * workers - len(pending))}
                if not pending:
                    return
                done, pending = wait(pending, return_when=FIRST_COMPLETED)
                yield from (job.result() for job in done)
        except BrokenProcessPool as error:
            raise InputError(
                "a process was killed, perhaps for memory: give the same command again to go on"
            ) from error
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


def _start() -> None:
    torch.set_num_threads(1)
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # the first process has the word
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """Workers whose parent was killed would wait for work for ever."""
    parent = multiprocessing.parent_process()
    if parent:
        parent.join()
        os._exit(1)
