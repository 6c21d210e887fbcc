"""Folders for one process at a time."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, SoftFileLock, Timeout

from niso.errors import InputError
from niso.messages import say

PATIENCE = 1.0
"""Seconds that a process waits for another one's lock without a word."""


@contextmanager
def locked(folder: Path, wait: bool = False) -> Iterator[None]:
    """Keep other processes from working on a folder; a lock ends with its process, however that ends, where the file
    system knows locks.

    Args:
        wait: until no other process works on it, instead of an error; after `PATIENCE`, a line says so.

    Raises:
        InputError: another process works on it.
    """
    lock = FileLock(folder / ".lock")
    try:
        held = lock.acquire(timeout=PATIENCE if wait else 0)
    except Timeout as error:
        if not wait:
            problem = f"another process works on {folder}: wait for it, or stop it first"
            if isinstance(lock, SoftFileLock):  # of file systems that know no locks: it outlives its process
                problem += f"; if none does any more, remove {lock.lock_file}"
            raise InputError(problem) from error
        from niso.collective import process  # torch is slow to import

        if process()[0] == 0:  # of processes that train together, one says so
            say(f"waiting for another process that works on {folder}, and locks {lock.lock_file}")
        held = lock.acquire()
    with held:
        yield
