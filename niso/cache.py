"""The user's cache: what is downloaded, made or measured once, for all runs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from niso.errors import InputError, remedy


def cached(kind: str) -> Path:
    """The folder of the user's cache for things of a kind, which may not be there yet."""
    import pooch  # slow to import

    return Path(pooch.os_cache("niso")) / kind


@contextmanager
def caching(folder: Path) -> Iterator[None]:
    """Makes a folder of the cache for what is written there inside.

    Raises:
        InputError: it cannot be made or written to.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        yield
    except OSError as error:
        problem = error.strerror or error
        raise InputError(
            f"cannot write to the cache {folder} ({problem}): {remedy(error)}, or set XDG_CACHE_HOME"
        ) from error
