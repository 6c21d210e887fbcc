"""Signals while a model is trained: the first lets the loop save and stop, the second ends the process."""

from __future__ import annotations

import os
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from threading import Thread, current_thread, main_thread
from types import FrameType

ALWAYS = (signal.SIGINT, signal.SIGTERM)
"""Signals that are heeded even where they were ignored before, as SIGINT is in the background of a script."""

SIGNALS = (*ALWAYS, *([signal.SIGHUP] if hasattr(signal, "SIGHUP") else []))  # Windows has no SIGHUP
"""SIGHUP comes where a terminal is closed."""

SAME = 0.5
"""Seconds within which further signals count as the first: GNU timeout, for one, sends two."""

SLOW = 2.0
"""Seconds after the first signal within which a step should end; else the process says what it waits for."""

PATIENCE = 30.0
"""Seconds after which a process that has had a signal, and begins no further step, is taken to wait for a dead one."""


def heeded() -> dict[int, Callable[[int, FrameType | None], object] | int]:
    """Of `SIGNALS`, those that interrupt, with their handlers so far.

    SIGHUP stays ignored where it is, as by nohup. A signal that a library handles in C stays with it: Python could not
    put that back.
    """
    handlers = {number: signal.getsignal(number) for number in SIGNALS}
    return {n: h for n, h in handlers.items() if h is not None and (n in ALWAYS or h is not signal.SIG_IGN)}


@contextmanager
def interruption(last_words: str, others: bool = False) -> Iterator[Callable[[], int]]:
    """While inside, the first of `SIGNALS` does not end the process; the function given tells its number, else 0.

    Where the function is not called for two seconds after it, a line says that the signal was heeded.
    A second signal ends the process at once, whatever it is waiting for, with the usual status of 128 + its number.
    Outside of the main thread, where Python takes no signals, nothing happens.

    Args:
        last_words: what the process says on stderr when it is ended at once; where empty it says nothing at all.
        others: there are other processes that this one may wait for: it also ends when, after the first signal, the
            function is not called for `PATIENCE` seconds.
    """
    if current_thread() is not main_thread():
        yield lambda: 0
        return
    watch = _Watch(last_words, others)
    previous = heeded()
    with watch.writer:  # whose end is that of the thread
        for number in previous:
            signal.signal(number, watch.note)
        previous_descriptor = signal.set_wakeup_fd(watch.writer.fileno())
        watch.start()
        try:
            yield watch.received
        finally:
            signal.set_wakeup_fd(previous_descriptor)
            for number, handler in previous.items():
                signal.signal(number, handler)


class _Watch(Thread):
    """Reads the numbers of signals off a socket, which gets them also where the main thread runs no Python code."""

    def __init__(self, last_words: str, others: bool) -> None:
        super().__init__(daemon=True, name="niso-signals")
        self.last_words, self.others = last_words, others
        self.first, self.alive = 0, time.monotonic()
        self.reader, self.writer = socket.socketpair()
        self.writer.setblocking(False)

    def note(self, number: int, _: object) -> None:
        self.first = self.first or number

    def received(self) -> int:
        self.alive = time.monotonic()
        return self.first

    def run(self) -> None:
        first, began, said = 0, 0.0, False
        with self.reader:
            while True:
                try:
                    number = next(iter(self.reader.recv(1)), None)
                except TimeoutError:
                    waited = time.monotonic() - max(began, self.alive)
                    if waited > SLOW and not said:
                        said = True
                        self.say("this step is finished and saved first; a second signal ends it at once")
                    if self.others and waited > PATIENCE:
                        self.end(first, f"it has waited for another process for {PATIENCE:.0f} s")
                    continue
                if number is None:  # closed
                    return
                if number in SIGNALS and not first:
                    first, began = number, time.monotonic()
                    self.reader.settimeout(SLOW / 4)
                elif number in SIGNALS and time.monotonic() - began > SAME:
                    self.end(number, "a second signal came")

    def end(self, number: int, reason: str) -> None:
        self.say(f"ended at once: {reason}; {self.last_words}", end=True)
        os._exit(128 + number)

    def say(self, line: str, end: bool = False) -> None:
        """Write a line, below a progress bar, which hides the cursor until its end."""
        if self.last_words:
            below = "\n" + "\x1b[?25h" * end if sys.stderr.isatty() else ""
            with suppress(OSError):  # nobody reads it any more
                os.write(2, f"{below}niso: {line}\n".encode())
