"""Work of several processes: the part of a batch that each takes, all parts gathered, and going on together or not at
all.

A single process has the whole batch, gathers nothing and waits for nobody.
"""

from __future__ import annotations

import atexit
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import torch
from torch import Tensor, distributed

from niso.errors import InputError, OtherProcessError

T = TypeVar("T", bound=Tensor)

PARENT = "NISO_PARENT_PROCESS"
"""Environment variable with the number of the process that started the others."""

LAST_WAIT = 10.0
"""Seconds, at most, for which a process lets its parent end first after a failure."""


def process() -> tuple[int, int]:
    """(rank, number of processes) of this process; (0, 1) outside distributed runs."""
    if distributed.is_available() and distributed.is_initialized():
        return distributed.get_rank(), distributed.get_world_size()
    return 0, 1


def local_part(batch: T) -> T:
    """This process's contiguous part of a global batch (first axis).

    Raises:
        ValueError: the batch does not divide evenly among the processes.
    """
    rank, world = process()
    if len(batch) % world:
        raise ValueError(f"a global batch of {len(batch)} does not divide evenly among {world} processes")
    size = len(batch) // world
    return batch[rank * size : (rank + 1) * size]  # type: ignore[return-value]  # a slice keeps the type


def part_size(size: int, accumulation: int) -> int:
    """Examples in each part of a batch.

    Args:
        size: of the batch of all processes.
        accumulation: parts that each process computes its examples in.

    Raises:
        InputError: the batch does not divide.
    """
    processes = process()[1]
    if size % (processes * accumulation):
        among = f"{processes} processes" + (f" in {accumulation} parts each" if accumulation > 1 else "")
        raise InputError(f"batch size {size} does not divide among {among}: choose a multiple")
    return size // (processes * accumulation)


class _FailedBeforeGather(Exception):
    """Another process failed inside `together`, and does not take part in its gathers any more."""


_inside_together = False


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
    """Inverse of `local_part`, in all processes at once; gradients flow back to the parts.

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
