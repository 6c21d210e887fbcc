"""Several runs at a time: each `niso resume` in a process of its own, with one table of progress.

A run's folder is made before its process starts: whatever ends the whole leaves only what can be resumed.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from pathlib import Path
from subprocess import DEVNULL, STDOUT, Popen
from threading import current_thread, main_thread
from typing import NamedTuple

from rich.console import Console

from niso.errors import InputError, Interrupted
from niso.experiments.settings import Settings
from niso.files.locks import locked
from niso.files.paths import in_shell
from niso.training.environment import command_line
from niso.training.interruption import heeded
from niso.training.log import LOG
from niso.training.progress import bars
from niso.training.run import OUTPUT, REPORT, Run, is_run

COMMAND = (sys.executable, "-m", "niso", "resume", "--")  # and the run's folder, which may begin with a dash


class Job(NamedTuple):
    """A run to be trained to its end, from wherever it stands."""

    label: str
    settings: Settings
    folder: Path


def create(job: Job) -> Run:
    """The new folder of a job's run, which knows the command that asked for it. Errors as of `Run.create`."""
    run = Run.create(job.folder, job.settings.dump())
    run.write("facts", {"command": command_line()})
    return run


def is_done(job: Job) -> bool:
    """Whether the job's run is finished, as its config.yaml asks for now, and has its report; a damaged one is not."""
    with contextlib.suppress(InputError):
        return Run(job.folder).complete and (job.folder / REPORT).exists()
    return False


def run_side_by_side(jobs: Sequence[Job], count: int, out: Path) -> list[str]:
    """Train and evaluate all jobs, `count` at a time; what went wrong, a line for each that failed.

    A failure of one does not stop the others. `out` is the folder that a message names as the one to resume.

    Raises:
        InputError: no job could begin.
        Interrupted: a signal came and was passed on to the processes, which have saved.
    """
    tasks = [_Task(job) for job in jobs]
    passed_on = 0
    with _signals() as received, _Table(tasks) as table, ThreadPoolExecutor(count) as pool:
        working = {pool.submit(task.work) for task in tasks}
        try:
            while working:
                for number in received[passed_on:]:
                    passed_on += 1
                    for task in tasks:  # before any ends and makes room for the next
                        task.interrupted = True
                    for task in tasks:
                        task.interrupt(number)
                finished, working = wait(working, timeout=0.1)
                for future in finished:
                    future.result()
                table.show()
        finally:
            for task in tasks if working else ():  # something went wrong here
                task.interrupt(signal.SIGTERM)
    done = sum(task.state == "finished" for task in tasks)
    if received and done < len(tasks):
        message = f"interrupted, {done} of {len(tasks)} runs are finished; `niso resume {in_shell(out)}` continues"
        raise Interrupted(message, received[0])
    problems = {task.job.label: task.problem for task in tasks if task.state == "failed"}
    lines = [f"{label}: {problem}" for label, problem in problems.items()]
    if problems and not any(is_run(job.folder) for job in jobs):
        raise InputError("; ".join(lines) if len(set(problems.values())) > 1 else next(iter(problems.values())))
    return lines


@contextmanager
def _signals() -> Iterator[list[int]]:
    """While inside, signals that interrupt do not end this process; they are put in the list given."""
    received: list[int] = []
    previous = heeded() if current_thread() is main_thread() else {}
    for number in previous:
        signal.signal(number, lambda number, _: received.append(number))
    try:
        yield received
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


class _Task:
    """A job and the process that works on it; the state is one of waiting, working, saving, interrupted, failed and
    finished."""

    def __init__(self, job: Job) -> None:
        self.job, self.run, self.problem, self.interrupted = job, Run(job.folder), "", False
        self.state = "finished" if is_done(job) else "waiting"
        self.process: Popen[bytes] | None = None
        self.steps: int | None = None
        self.phase, self.step, self.rate, self.loss, self.stamp = "", 0, "", "", 0

    def work(self) -> None:
        """Train the run to its end, unless that was done or a signal came."""
        if self.state != "waiting" or self.interrupted:
            return
        created = not is_run(self.job.folder)
        if created:
            try:
                create(self.job)
            except InputError as error:
                self.state, self.problem = "failed", str(error)
                return
        env = {**os.environ, "OMP_WAIT_POLICY": "passive", "OMP_NUM_THREADS": str(self.job.settings.hardware.threads)}
        with open(self.job.folder / OUTPUT, "ab") as output:
            start = output.tell()
            self.process = Popen(
                [*COMMAND, str(self.job.folder)],
                stdin=DEVNULL,
                stdout=output,
                stderr=STDOUT,
                env=env,
                start_new_session=os.name == "posix",  # Ctrl-C reaches it once, from here: the second means "now"
            )
        self.state = "working"
        if self.interrupted:  # meanwhile
            self.interrupt(signal.SIGTERM)
        status = self.process.wait()
        if status == 0:
            self.state = "finished"
        elif self.interrupted and status != 2:
            self.state = "interrupted"
        else:
            self.problem, self.state = self._problem(status, start), "failed"
            if status == 2 and created:
                with contextlib.suppress(InputError), contextlib.ExitStack() as stack:
                    stack.enter_context(locked(self.job.folder))  # unless another process works on it
                    self.run.withdraw(stack.close)

    def interrupt(self, number: int) -> None:
        """Pass a signal on: the process saves and ends. On Windows, Ctrl-C reaches it by itself."""
        self.interrupted = True
        if self.process is None or self.process.poll() is not None:
            return
        self.state = "saving"
        if number == signal.SIGINT and os.name == "posix":
            self.process.send_signal(number)
        elif number != signal.SIGINT:
            self.process.terminate()

    def look(self) -> None:
        """Read phase, step, steps, rate and loss off the run's log.csv, where that has changed."""
        file = self.job.folder / LOG
        stamp = file.stat().st_mtime_ns if file.exists() else 0
        if stamp == self.stamp or not (log := self.run.log):
            return
        self.stamp, (self.phase, columns) = stamp, list(log.items())[-1]
        with contextlib.suppress(InputError):  # of a damaged config.yaml, which the run itself will name
            self.steps = self.run.steps_of(self.phase)
        steps, seconds = columns["step"][-10:], columns["seconds"][-10:]
        rate = (steps[-1] - steps[0]) / max(seconds[-1] - seconds[0], 1e-3)
        self.step, self.rate = int(steps[-1]), f"{rate:.1f} steps/s" if len(steps) > 1 else ""
        self.loss = f"loss {columns['loss'][-1]:.4g}" if "loss" in columns else ""

    def _problem(self, status: int, start: int) -> str:
        """The last error line of the process, or what ended it."""
        if status < 0:
            ended = f"ended by signal {-status} ({signal.strsignal(-status)})"
            return f"{ended}: `niso resume {in_shell(self.job.folder)}` goes on"
        output = (self.job.folder / OUTPUT).read_bytes()[start:].decode(errors="replace")
        lines = output.strip().splitlines() or ["no output"]
        said = [line.removeprefix("niso: ") for line in lines if line.startswith("niso: ")]
        known = said and (status == 2 or lines[-1].startswith("niso: "))  # else these are warnings before a crash
        return said[-1] if known else f"{lines[-1]} (see {self.job.folder / OUTPUT})"


class _Table:
    """One table of all runs on a terminal, plain lines elsewhere."""

    def __init__(self, tasks: Sequence[_Task]) -> None:
        self.tasks, self.console = tasks, Console(stderr=True)
        self.progress = bars(self.console)
        for task in tasks:
            self.progress.add_task(task.job.folder.name, total=None, rate="", terms="")
        self.printed = [(task.state, time.monotonic()) for task in tasks]

    def __enter__(self) -> _Table:
        self.show()
        self.progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.show()
        for row in self.progress.tasks:
            row.visible = True
        self.progress.stop()

    def show(self) -> None:
        """Bring everything up to date; a long table leaves out the runs that nobody works on."""
        few, now = len(self.tasks) <= self.console.height - 2, time.monotonic()
        for index, (task, row) in enumerate(zip(self.tasks, self.progress.tasks, strict=True)):
            state, (before, when) = task.state, self.printed[index]
            busy = state in ("working", "saving")
            task.look()
            row.description, row.visible = f"{task.job.folder.name} {task.phase}", few or busy
            terms = f"{task.loss} {state}"
            self.progress.update(row.id, completed=task.step, total=task.steps, rate=task.rate, terms=terms)
            if not self.console.is_terminal and (state != before or (busy and now - when >= 30)):
                self.printed[index] = state, now
                words = [f"{task.phase} {task.step}/{task.steps or '?'}" if task.phase else "", task.rate, task.loss]
                if state in ("failed", "finished"):
                    finished = sum(other.state == "finished" for other in self.tasks)
                    words = [task.problem or f"{finished} of {len(self.tasks)}"]
                line = ", ".join(filter(None, [f"{task.job.label}: {state}", *words]))
                self.console.print(line, highlight=False, markup=False, emoji=False, soft_wrap=True)
