"""What all preparations show: a bar while they work, and in the end what was refused."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeVar

from niso.data.prepared import AGAIN
from niso.errors import Interrupted
from niso.training.progress import Bar

Outcome = TypeVar("Outcome")

REFUSED_STATUS = 3


def with_bar(work: Callable[[Callable[[str, str | None], None]], Outcome], total: int, unit: str) -> Outcome:
    """Do the work under a progress bar, with a function that it calls after each item: its name, why it was refused.

    Raises:
        Interrupted: Ctrl-C, with the word that the same command goes on.
    """
    done = refused = 0
    bar = Bar("prepare", total, 0, visible=True, unit=unit)

    def report(name: str, problem: str | None) -> None:
        nonlocal done, refused
        done, refused = done + 1, refused + (problem is not None)
        bar.show(done, {"refused": float(refused)})

    try:
        with bar:
            return work(report)
    except KeyboardInterrupt:
        raise Interrupted(f"interrupted; {AGAIN}", signal.SIGINT) from None


def list_refused(unit: str, out: Path, prepared: int, kept: int, refused: Mapping[str, str]) -> int:
    """Say what became of the items: those refused on stderr, a summary on stdout. Returns the exit status."""
    for name, problem in refused.items():
        print(f"refused {name}: {problem}", file=sys.stderr)
    there = f", {kept} were there" if kept else ""
    print(f"{prepared} {unit} prepared in {out}{there}, {len(refused)} refused")
    return REFUSED_STATUS if refused else 0
