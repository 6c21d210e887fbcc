"""Memory that a process keeps after freeing it, so that the next training step need not ask the kernel for it."""

from __future__ import annotations

import ctypes
import sys

M_TRIM_THRESHOLD, M_MMAP_MAX = -1, -4  # glibc, malloc.h
NEVER = 2**31 - 1


def keep_freed_memory() -> bool:
    """Make the C library reuse freed blocks of any size; call it once, before training on a CPU.

    By default glibc returns large freed blocks to the kernel, and the next tensor of that size is faulted in
    page by page, which can take longer than computing it. The price: the process keeps its peak memory, and
    all of its allocations change. False, and nothing changed, on other systems than Linux with glibc.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None) if sys.platform.startswith("linux") else None
    return bool(mallopt and mallopt(M_MMAP_MAX, 0) and mallopt(M_TRIM_THRESHOLD, NEVER))
