"""What several processes do at once: gather the parts of a batch, and go on together or not at all.

In a single process all of it does nothing.
"""

from __future__ import annotations

import atexit
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, distributed

from niso.errors import OtherProcessError
from niso.random import local_part, process


class _FailedBeforeGather(Exception):
    """Another process failed inside `together`, and does not take part in its gathers any more."""


_inside_together = False


PARENT = "NISO_PARENT_PROCESS"
"""Environment variable with the number of the process that started the others."""

LAST_WAIT = 10.0
"""Seconds, at most, for which a process lets its parent end first after a failure."""


@contextmanager
def together(agree: bool = True) -> Iterator[None]:
    """Work after which all processes go on or none: where one fails, the others do not wait for it for ever.

    Processes tell each other whether they failed by one small collective at the end, and by one before each
    `global_batch` inside, which a process that failed earlier answers by the one at its end. With `agree` False, the
    same in all processes, they do not.

    Raises:
        OtherProcessError: the work failed in another process. The first process that failed raises its own error.
    """
    global _inside_together
    rank, world = process()
    if world == 1 or not agree:
        yield
        return
    error: Exception | None = None
    outer, _inside_together = _inside_together, True
    try:
        yield
    except _FailedBeforeGather as failure:  # all processes know already
        atexit.register(_let_parent_end)
        raise OtherProcessError(str(failure)) from None
    except Exception as caught:
        error = caught
    finally:
        _inside_together = outer
    first = _first_failure(error is not None)
    if first is not None:
        atexit.register(_let_parent_end)
    if error is not None and first == rank:
        raise error
    if first is not None:
        raise OtherProcessError(f"process {first} failed")


def global_batch(part: Tensor) -> Tensor:
    """Inverse of `niso.random.local_part`, in all processes at once; gradients flow back to the parts.

    Raises:
        OtherProcessError: from the `together` around it, where another process failed before it came here.
    """
    if process()[1] == 1:
        return part
    if _inside_together and (first := _first_failure(False)) is not None:
        raise _FailedBeforeGather(f"process {first} failed")
    return _GlobalBatch.apply(part)


class _GlobalBatch(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, part: Tensor) -> Tensor:
        parts = [torch.empty_like(part, memory_format=torch.contiguous_format) for _ in range(process()[1])]
        distributed.all_gather(parts, part.contiguous())
        return torch.cat(parts)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        total = gradient.clone(memory_format=torch.contiguous_format)
        distributed.all_reduce(total)
        return local_part(total)


def _let_parent_end() -> None:
    """After a failure in all processes: Fabric kills the first one where it finds another already ended."""
    deadline = time.monotonic() + LAST_WAIT
    while os.environ.get(PARENT) == str(os.getppid()) and time.monotonic() < deadline:
        time.sleep(0.05)


def _first_failure(failed: bool) -> int | None:
    """Rank of the first process that says it failed, None where none does."""
    rank, world = process()
    first = torch.tensor(rank if failed else world, device="cuda" if distributed.get_backend() == "nccl" else "cpu")
    distributed.all_reduce(first, distributed.ReduceOp.MIN)
    number = int(first)
    return number if number < world else None
