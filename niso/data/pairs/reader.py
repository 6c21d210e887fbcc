"""What reads DATA."""

from __future__ import annotations

from abc import ABC, abstractmethod
from pathlib import Path
from typing import ClassVar

from niso.data.pairs.reading import Reading
from niso.data.pairs.table import Table


class Reader(ABC):
    """Reads one kind of DATA. A new one is one file and one line in `READERS`."""

    takes: ClassVar[str]
    """What it reads, for messages."""
    reads: ClassVar[frozenset[str]]
    """Which of the settings `kind`, `size`, `skip` and `crops` it heeds."""

    @classmethod
    @abstractmethod
    def fits(cls, path: Path, reading: Reading) -> bool:
        """Whether it reads this path."""

    @classmethod
    @abstractmethod
    def names(cls, path: Path, reading: Reading) -> set[str]:
        """Which of the table's parts ("x", "tx", "ttx", "group", "label", "clip") are there, found without reading
        them."""

    @classmethod
    @abstractmethod
    def read(cls, path: Path, reading: Reading, size: int) -> Table:
        """The observations; pictures resized to `size` where the reading asks for no other size.

        Raises:
            InputError: the data cannot be used, in one line.
        """
