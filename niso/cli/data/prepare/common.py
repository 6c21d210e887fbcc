"""What all preparations share: options, a progress bar while they work, and what was refused at the end."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

from tyro.conf import Positional, arg

from niso.cli.options import PARTLY, Command
from niso.config import require
from niso.data.prepared import AGAIN, REFUSED, Outcome, Report
from niso.data.workers import cores
from niso.errors import Interrupted, counted, one_line
from niso.files.paths import check_place
from niso.training.progress import Bar

PRINTED = 10
"""Lines of a list that are printed."""


def shortened(lines: list[str], rest: str = "") -> list[str]:
    """The first `PRINTED` lines, and one that says how many more there are, with `rest` after their number."""
    more = len(lines) - PRINTED
    return [*lines[:PRINTED], f"… and {more} more{rest}"] if more > 0 else lines


@dataclass(frozen=True, kw_only=True)
class Preparing(Command):
    """Options of all preparations."""

    source: Annotated[Path, Positional, arg(metavar="IN")]
    """What to prepare; each command describes its own."""
    out: Annotated[Path, Positional, arg(metavar="OUT")]
    """Folder to write to."""
    workers: int = field(default_factory=cores)
    """Processes; by default one for each core."""

    def __post_init__(self) -> None:
        require(self, "workers", positive=True)
        check_place(self.out, "OUT")

    def prepare_all(
        self, work: Callable[[Report], Outcome], total: int, unit: str, describe: Callable[[str], str] | None = None
    ) -> int:
        """Prepare `total` items, called `unit`, under a progress bar; print what became of them; the exit status.

        Args:
            describe: a line on an item that was prepared, by its name, to print as soon as it is there.
        """
        done = refused = 0
        bar = Bar("prepare", total, 0, visible=True, unit=unit)

        def report(name: str, problem: str | None) -> None:
            nonlocal done, refused
            done, refused = done + 1, refused + (problem is not None)
            if describe and problem is None:
                bar.progress.console.print(one_line(describe(name)), highlight=False, markup=False, soft_wrap=True)
            bar.show(done, {"refused": float(refused)})

        try:
            with bar:
                outcome = work(report)
        except KeyboardInterrupt:
            raise Interrupted(f"interrupted; {AGAIN}", signal.SIGINT) from None
        notes = [f"{one_line(name)}: {note}" for name, note in outcome.notes.items()]
        refusals = [f"refused {one_line(name)}: {problem}" for name, problem in outcome.refused.items()]
        for line in [*shortened(notes, f" with notes, see {self.out / REFUSED}"), *refusals]:
            print(line, file=sys.stderr)
        kept = f", {outcome.kept} were there" if outcome.kept else ""
        done_now = counted(outcome.prepared, unit.removesuffix("s"))
        print(f"{done_now} prepared in {self.out}{kept}, {len(outcome.refused)} refused")
        return PARTLY if outcome.refused else 0
