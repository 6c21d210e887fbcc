"""Progress in a terminal: bars, and lines about what takes long."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from niso.messages import is_quiet, say

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress


def bars(console: Console, visible: bool = True) -> Progress:
    """The columns of every display of progress; tasks have the fields "rate" and "terms". Shown on a terminal only."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    fields = ("description", "fields[rate]", "fields[terms]")  # with names of the user's, no markup
    name, rate, terms = (TextColumn(f"{{task.{field}}}", markup=False) for field in fields)
    columns = (name, BarColumn(20), MofNCompleteColumn(), rate, TimeRemainingColumn(), terms)
    return Progress(*columns, console=console, disable=not (visible and console.is_terminal))


class Bar:
    """A progress bar with rate, losses and time left; where nobody watches, a plain line every half minute."""

    def __init__(self, phase: str, steps: int, start: int, visible: bool, unit: str = "steps") -> None:
        from rich.console import Console  # slow to import

        visible = visible and not is_quiet()
        self.phase, self.steps, self.start, self.unit = phase, steps, start, unit
        self.began = self.printed = time.monotonic()
        self.timed = False
        console = Console(stderr=True)
        self.plain = visible and not console.is_terminal
        self.progress = bars(console, visible)
        self.task = self.progress.add_task(phase, total=steps, completed=start, rate="", terms="")

    def __enter__(self) -> Bar:
        self.progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.progress.stop()

    def show(self, step: int, means: dict[str, float]) -> None:
        """Show the state after `step` steps. Rates are since the first call, before which come compilation and data."""
        now = time.monotonic()
        speed = (step - self.start) / max(now - self.began, 1e-9)
        known = self.timed or step == self.steps
        if not self.timed:
            self.timed, self.start, self.began = True, step, now
        rate = f"{speed:.1f} {self.unit}/s" if known else ""
        terms = " ".join(f"{name} {value:.4g}" for name, value in means.items())
        self.progress.update(self.task, completed=step, rate=rate, terms=terms)
        if self.plain and (now - self.printed >= 30 or step == self.steps):
            self.printed = now
            left = f" {rate}, {(self.steps - step) / max(speed, 1e-9):.0f} s left" if known else ""
            line = f"{self.phase} {step}/{self.steps}{left}: {terms}"
            self.progress.console.print(line, highlight=False, markup=False, emoji=False, soft_wrap=True)


@contextmanager
def stage(name: str, visible: bool = True) -> Iterator[None]:
    """While inside, a terminal shows how long something has taken whose end cannot be told."""
    from rich.console import Console  # slow to import
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    console = Console(stderr=True)
    shown = visible and console.is_terminal and not is_quiet()
    columns = TextColumn("{task.description}"), SpinnerColumn(), TimeElapsedColumn()
    with Progress(*columns, console=console, disable=not shown, transient=True) as progress:
        progress.add_task(name, total=None)
        yield


@contextmanager
def preparing(folder: Path, unit: str) -> Iterator[Callable[[str, int, int], None]]:
    """Bars, one after another, while data is made once for this run and later ones, in a folder of the user's cache.

    Gives a function of the part of the work, how much of it is done, and of how much: a new part starts a new bar. The
    folder is named at the first call, and with its size at the end. Without a call nothing is said.
    """
    shown = ExitStack()
    bar: Bar | None = None

    def show(part: str, done: int, total: int) -> None:
        nonlocal bar
        if bar is None:
            say(f"data for this run and later ones is prepared once, in {folder}")
        if bar is None or bar.phase != part:
            shown.close()
            bar = shown.enter_context(Bar(part, total, 0, visible=True, unit=unit))
        bar.show(done, {})

    with shown:
        yield show
    if bar is not None:
        from rich.filesize import decimal  # slow to import

        size = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
        say(f"{folder} now holds {decimal(size)}")


def counting(show: Callable[[str, int, int], None], total: int) -> Callable[[str, str | None], None]:
    """What counts the things that are prepared: to be called after each, with its name and why it cannot be used.

    Args:
        show: of `preparing`.
        total: how many there are.
    """
    done = itertools.count(1)

    def report(name: str, problem: str | None) -> None:
        show("prepare", next(done), total)

    return report
