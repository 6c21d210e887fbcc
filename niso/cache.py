"""The user's cache: what is downloaded, made or measured once, for all runs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from niso.files.locks import locked
from niso.files.writing import refusing


def cached(kind: str) -> Path:
    """The folder of the user's cache for things of a kind, which may not be there yet."""
    import pooch  # slow to import

    return Path(pooch.os_cache("niso")) / kind


@contextmanager
def caching(folder: Path) -> Iterator[None]:
    """Makes a folder of the cache, for one process at a time.

    Raises:
        InputError: it cannot be made or written to.
    """
    with refusing(f"write to the cache {folder}", ", or set XDG_CACHE_HOME"):
        folder.mkdir(parents=True, exist_ok=True)
        with locked(folder, wait=True):
            yield
