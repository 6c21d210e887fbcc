"""Several runs side by side: each `niso resume` in a process of its own, with one table of progress.

A run's folder is made before its process starts: whatever ends the whole leaves only what can be resumed.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from subprocess import DEVNULL, STDOUT, Popen
from threading import current_thread, main_thread
from typing import Any, NamedTuple

from rich.console import Console
from rich.live import Live
from rich.table import Table

from niso.errors import InputError, Interrupted
from niso.experiments.settings import Settings
from niso.training.progress import read_log
from niso.training.run import RunFolder

OUTPUT = "output.log"  # of the process, in the run's folder
BUSY = ("starting", "training", "trained", "saving")


class Job(NamedTuple):
    """A run to be trained to its end, from wherever it stands."""

    label: str
    settings: Settings
    folder: Path


def run_side_by_side(jobs: Sequence[Job], count: int, out: Path) -> list[str]:
    """Train and evaluate all jobs, `count` at a time; what went wrong, a line for each that failed.

    A failure of one does not stop the others. `out` is the folder that a message names as the one to resume.

    Raises:
        InputError: no job could begin.
        Interrupted: a signal came and was passed on to the processes, which have saved.
    """
    runs = [_Run(job) for job in jobs]
    waiting, working, passed_on = [run for run in runs if run.state == "waiting"], list[_Run](), 0
    with _signals() as received, closing(_Progress(runs)) as progress:
        try:
            while working or (waiting and not received):
                while waiting and len(working) < count and not received:
                    working += [run] if (run := waiting.pop(0)).start() else []
                for number in received[passed_on:]:
                    passed_on += 1
                    for run in working:
                        run.interrupt(number)
                working = [run for run in working if run.goes_on()]
                progress.show()
                time.sleep(0.1)
        finally:
            for run in working:  # none, unless something went wrong here
                run.interrupt(signal.SIGTERM)
            for run in working:
                run.process.wait()
    finished = sum(run.state == "finished" for run in runs)
    if received and finished < len(runs):
        message = f"interrupted, {finished} of {len(runs)} runs are finished; `niso resume {out}` goes on"
        raise Interrupted(message, received[0])
    failed = {run.job.label: run.problem for run in runs if run.state == "failed"}
    lines = [f"{label}: {problem}" for label, problem in failed.items()]
    if failed and not any((job.folder / "config.yaml").exists() for job in jobs):
        raise InputError("; ".join(lines) if len(set(failed.values())) > 1 else next(iter(failed.values())))
    return lines


@contextmanager
def _signals() -> Iterator[list[int]]:
    """While inside, SIGINT, SIGTERM and SIGHUP do not end this process; they are put in the list given."""
    received: list[int] = []
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP) if current_thread() is main_thread() else ()
    previous = {number: handler for number in numbers if (handler := signal.getsignal(number)) is not signal.SIG_IGN}
    for number in previous:
        signal.signal(number, lambda number, _: received.append(number))
    try:
        yield received
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


class _Run:
    """A job, the process that works on it, and how far it is."""

    def __init__(self, job: Job) -> None:
        self.job, self.folder, self.reached = job, RunFolder(job.folder), _Reached(job)
        self.reached.read()
        self.process: Popen[bytes]
        complete = self.folder.finished and (job.folder / "report.html").exists()
        self.state, self.problem, self.created, self.before = "finished" if complete else "waiting", "", False, 0

    def start(self) -> bool:
        """Start the process; False where there cannot be such a run."""
        path, settings = self.job.folder, self.job.settings
        if not (path / "config.yaml").exists():
            try:
                RunFolder.create(path, settings.dump())
            except InputError as error:
                self.state, self.problem = "failed", str(error)
                return False
            self.created = True
            self.folder.write("run.json", _facts(settings))
        command = [sys.executable, "-m", "niso", "resume", str(path)]
        env = {**os.environ, "OMP_WAIT_POLICY": "passive", "OMP_NUM_THREADS": str(settings.hardware.threads)}
        with open(path / OUTPUT, "ab") as output:
            self.before = output.tell()
            # a group of its own, so that Ctrl-C reaches it once, from here: the second means "now"
            self.process = Popen(command, stdin=DEVNULL, stdout=output, stderr=STDOUT, env=env, process_group=0)
        self.state = "starting"
        return True

    def interrupt(self, number: int) -> None:
        """Pass a signal on: the process saves and ends."""
        self.process.send_signal(signal.SIGTERM if number == signal.SIGHUP else number)
        self.state = "saving"

    def goes_on(self) -> bool:
        """Whether the process still works, with everything brought up to date."""
        status = self.process.poll()
        if self.reached.read() and self.state != "saving":
            self.state = "trained" if self.reached.step == self.reached.steps else "training"
        if status is None:
            return True
        if status == 0:
            self.state = "finished"
        elif self.state == "saving" and status != 2:
            self.state = "interrupted"
        else:
            self.state, self.problem = "failed", self._problem(status)
            with contextlib.suppress(InputError), self.folder.locked():  # unless somebody else works on it by now
                if status == 2 and self.created and not (self.job.folder / "log.csv").exists():
                    (self.job.folder / OUTPUT).unlink()
                    self.folder.withdraw()
        return False

    def _problem(self, status: int) -> str:
        """The last error line of the process, or what ended it."""
        if status < 0:
            return f"ended by signal {-status} ({signal.strsignal(-status)})"
        said = (self.job.folder / OUTPUT).read_bytes()[self.before :].decode(errors="replace")
        lines = said.strip().splitlines() or ["it said nothing"]
        own = [line.removeprefix("niso: ") for line in lines if line.startswith("niso: ")]
        return own[-1] if own else f"{lines[-1]} (see {self.job.folder / OUTPUT})"


def _facts(settings: Settings) -> dict[str, Any]:
    """What run.json says until the process itself writes it; the command only where it starts such a run."""
    facts = {name: getattr(settings, name) for name in ("experiment", "preset", "method", "seed")}
    return facts | {"command": None if sys.argv[1:2] == ["resume"] else shlex.join(["niso", *sys.argv[1:]])}


@dataclass
class _Reached:
    """How far a run is, by its log.csv."""

    job: Job
    phase: str = ""
    step: int = 0
    steps: int | None = None  # of the phase, where the configuration tells
    rate: float = 0.0
    loss: str = ""
    stamp: int = 0

    def read(self) -> bool:
        """Read the file where it has changed; whether it has."""
        path = self.job.folder / "log.csv"
        stamp = path.stat().st_mtime_ns if path.exists() else 0
        if stamp == self.stamp:
            return False
        self.stamp, rows = stamp, read_log(path)
        if rows:
            self.phase, self.loss = rows[-1]["phase"], rows[-1].get("loss", "")
            optimisation = getattr(self.job.settings.config, {"pretrain": "training"}.get(self.phase, self.phase), None)
            self.steps = getattr(optimisation, "steps", None)
            points = [(int(row["step"]), float(row["seconds"])) for row in rows if row["phase"] == self.phase]
            (begin, before), (self.step, now) = [(0, 0.0), *points][-10:][0], points[-1]
            self.rate = (self.step - begin) / max(now - before, 1e-3)
        return True

    def cells(self) -> tuple[str, str, str, str, str]:
        """Phase, step of steps, steps a second, time left in the phase, loss."""
        if not self.phase:
            return ("",) * 5
        seconds = (self.steps - self.step) / self.rate if self.steps and self.rate else 0.0
        left = str(timedelta(seconds=round(seconds))) if seconds else ""
        return self.phase, f"{self.step}/{self.steps or '?'}", f"{self.rate:.1f}", left, self.loss


class _Progress:
    """One table of all runs on a terminal, plain lines where nobody watches."""

    def __init__(self, runs: Sequence[_Run]) -> None:
        self.runs, self.console, self.drawn = runs, Console(stderr=True), 0.0
        self.live = Live(console=self.console, auto_refresh=False)  # on a terminal
        self.said = {run.job.folder: (run.state, time.monotonic()) for run in runs}

    def show(self) -> None:
        """Show the state of all runs, not more often than is readable."""
        now = time.monotonic()
        if self.console.is_terminal and now - self.drawn >= 0.5:
            self.drawn = now
            self.live.start()
            few = len(self.runs) <= self.console.height - 6
            self.live.update(self._table([run for run in self.runs if few or run.state in BUSY]), refresh=True)
        for run in self.runs if not self.console.is_terminal else ():
            state, when = self.said[run.job.folder]
            if run.state != state or (run.state in BUSY and now - when >= 30):
                self.said[run.job.folder] = run.state, now
                self.console.print(self._line(run), highlight=False, markup=False, soft_wrap=True)

    def close(self) -> None:
        """Leave the table of all runs on the terminal."""
        if self.live.is_started:
            self.live.update(self._table(self.runs), refresh=True)
            self.live.stop()

    def _line(self, run: _Run) -> str:
        phase, steps, rate, left, loss = run.reached.cells()
        words = [f"{phase} {steps}", f"{rate} steps/s", f"{left} left" if left else "", f"loss {loss}"] if phase else []
        if run.state in ("failed", "finished"):
            words = [run.problem or self._finished()]
        return ", ".join(filter(None, [f"{run.job.label}: {run.state}", *words]))

    def _finished(self) -> str:
        return f"{sum(run.state == 'finished' for run in self.runs)} of {len(self.runs)}"

    def _table(self, runs: Sequence[_Run]) -> Table:
        heads = ("run", "phase", "step", "steps/s", "left", "loss", "state")
        table = Table(*heads, box=None, caption=f"{self._finished()} finished", caption_justify="left")
        for column in table.columns[2:6]:
            column.justify = "right"
        for run in runs:
            table.add_row(run.job.folder.name, *run.reached.cells(), run.state)
        return table
