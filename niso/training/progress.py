"""Progress of a phase: running means of the loss terms, log.csv, TensorBoard events and a progress bar."""

from __future__ import annotations

import csv
import math
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from niso.training.run import EVENTS, LOG, read_log, write_log

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress


def _words(value: object) -> str:
    """What something is, briefly."""
    if isinstance(value, Mapping):
        return f"one of {', '.join(map(str, value)) or 'nothing'}"
    return f"a tensor {tuple(value.shape)}" if isinstance(value, Tensor) else f"{value!r:.60}"


class Meter:
    """Means of loss terms since the last flush. Sums stay on their device, so that adding does not wait for it.

    Attributes:
        count: steps since then.
    """

    def __init__(self) -> None:
        self._sums: dict[str, Tensor] = {}
        self.count = 0

    def add(self, terms: Any) -> None:
        """Add the terms of a step, as an objective gives them: perhaps the user's own.

        Raises:
            TypeError: they are no scalar tensors by name, "loss" among them, or one is named as a column of log.csv.
        """
        if not (isinstance(terms, Mapping) and "loss" in terms):
            raise TypeError(f'an objective gives a mapping with "loss" in it, not {_words(terms)}')
        for name, term in terms.items():
            if not (isinstance(term, Tensor) and term.ndim == 0):
                raise TypeError(f"an objective gives a scalar tensor for each term, not {_words(term)} for {name!r}")
            if name in Log.FIXED:
                raise TypeError(f"log.csv has a column {name!r} of its own: give that term of the loss another name")
            value = term.detach()
            self._sums[name] = self._sums[name].to(value) + value if name in self._sums else value.clone()
        self.count += 1

    def go_on(self, count: int, sums: dict[str, float]) -> None:
        """Take up the sums of so many steps before; they get the precision and the device of what is added."""
        self.count, self._sums = count, {n: torch.tensor(value, dtype=torch.float64) for n, value in sums.items()}

    def check_finite(self) -> None:
        """Check all values added since the last flush.

        Raises:
            FloatingPointError: one is not finite; names its term, the total "loss" only where it is no other.
        """
        bad = [name for name, total in self.sums().items() if not math.isfinite(total)]
        if bad:
            name = min(bad, key=lambda name: name == "loss")
            raise FloatingPointError(f"the term {name!r} of the loss is not finite")

    def flush(self) -> dict[str, float]:
        """Means over the steps added since the last call."""
        means = {name: total / self.count for name, total in self.sums().items()}
        self._sums, self.count = {}, 0
        return means

    def sums(self) -> dict[str, float]:
        """All sums, in one transfer: the host waits for a GPU once. Terms on the CPU are taken there."""
        if not self._sums:
            return {}
        device = self._sums["loss"].device
        sums = torch.stack([total.to(device, non_blocking=True) for total in self._sums.values()])
        return dict(zip(self._sums, sums.tolist(), strict=True))


class Log:
    """log.csv and TensorBoard events of a run; the rows of all phases are in one table.

    Opening it for a phase at a step drops the rows that an interrupted run had written beyond that step.
    """

    FIXED = ("phase", "step", "learning_rate", "seconds")

    def __init__(self, run: Path, phase: str, start: int) -> None:
        from torch.utils.tensorboard import SummaryWriter  # slow to import

        self.path, self.phase = run / LOG, phase
        rows = [row for row in read_log(self.path) if row["phase"] != phase or int(row["step"]) <= start]
        self.columns = list(rows[0] if rows else self.FIXED)
        write_log(self.path, self.columns, rows)
        # a folder for each phase: TensorBoard drops what its events have from `purge_step` on
        self.events = SummaryWriter(str(run / EVENTS / phase), purge_step=start + 1)

    def write(self, step: int, learning_rate: float, seconds: float, means: dict[str, float]) -> None:
        """Append a row, with new columns for terms not seen before."""
        fixed = (self.phase, str(step), f"{learning_rate:.6g}", f"{seconds:.3f}")
        row = dict(zip(self.FIXED, fixed, strict=True)) | {name: f"{value:.6g}" for name, value in means.items()}
        if new := [name for name in row if name not in self.columns]:
            self.columns += new
            write_log(self.path, self.columns, [*read_log(self.path), row])
        else:
            with open(self.path, "a", newline="") as file:
                csv.DictWriter(file, self.columns).writerow(row)
        for name, value in {"learning_rate": learning_rate, **means}.items():
            self.events.add_scalar(f"{self.phase}/{name}", value, step)

    def close(self) -> None:
        self.events.close()


def bars(console: Console, visible: bool = True) -> Progress:
    """The columns of every display of progress; tasks have the fields "rate" and "terms". Shown on a terminal only."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    fields = ("description", "fields[rate]", "fields[terms]")  # with names of the user's, no markup
    name, rate, terms = (TextColumn(f"{{task.{field}}}", markup=False) for field in fields)
    columns = (name, BarColumn(20), MofNCompleteColumn(), rate, TimeRemainingColumn(), terms)
    return Progress(*columns, console=console, disable=not (visible and console.is_terminal))


_quiet: ContextVar[bool] = ContextVar("quiet", default=False)


@contextmanager
def quiet() -> Iterator[None]:
    """Without bars and other words on stderr."""
    token = _quiet.set(True)
    try:
        yield
    finally:
        _quiet.reset(token)


def say(line: str) -> None:
    """Print a line on stderr, unless inside `quiet`."""
    if not _quiet.get():
        print(line, file=sys.stderr)


class Bar:
    """A progress bar with rate, losses and time left; where nobody watches, a plain line every half minute."""

    def __init__(self, phase: str, steps: int, start: int, visible: bool, unit: str = "steps") -> None:
        from rich.console import Console  # slow to import

        visible = visible and not _quiet.get()
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
    shown = visible and console.is_terminal and not _quiet.get()
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


def every(steps: int) -> int:
    """Interval between the rows of a log that is to have about 400 of them."""
    return max(1, steps // 400)
