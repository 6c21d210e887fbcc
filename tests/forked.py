"""Programs in processes that are forked from this one, which has imported torch and niso: to import both anew takes
five seconds of a core, nearly all that such a program does."""

from __future__ import annotations

import inspect
import os
import runpy
import signal
import subprocess
import sys
import threading
import traceback
import warnings
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module
from types import SimpleNamespace
from typing import Any, NoReturn

import torch

FORKS = sys.platform == "linux" and not torch.cuda.is_available()
"""Elsewhere libraries do not survive it, nor does a GPU, nor the threads of torch that serve one."""

IMPORTED = ("lightning_fabric", "niso.report", "scipy.optimize", "scipy.stats")
"""What runs need, and import late: here it is imported once, for this process and all that it starts."""
NAMES = [*inspect.signature(subprocess.Popen._execute_child).parameters][2:]


class Forked(subprocess.Popen):
    """`subprocess.Popen`, whose Python programs, and those that they start in turn, are not read from the disk anew.

    Signals, files, folder, environment and status are those of the new process; what was patched stays so.
    """

    def _execute_child(self, args: Any, *given: Any) -> None:
        if isinstance(args, str) or args[0] != sys.executable or args[1] == "-c":
            super()._execute_child(args, *given)
            return
        for name in IMPORTED:
            import_module(name)
        of = SimpleNamespace(**dict(zip(NAMES, given, strict=True)))
        sys.stdout.flush()  # else the new process would write the same once more
        sys.stderr.flush()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # of forks where there are threads; these hold no lock
            self.pid = os.fork()
        if self.pid == 0:
            _become([os.fspath(word) for word in args], of)
        self._child_created = True
        ends = of.p2cread, of.p2cwrite, of.c2pread, of.c2pwrite, of.errread, of.errwrite
        self._close_pipe_fds(*ends)


Popen = Forked if FORKS else subprocess.Popen


def _become(words: Sequence[str], of: SimpleNamespace) -> NoReturn:
    """Be the new process: run `python words`, and end as that does."""
    status = 1
    try:
        for ours, number in ((of.p2cread, 0), (of.c2pwrite, 1), (of.errwrite, 2)):
            if ours != -1:
                os.dup2(ours, number)
        os.closerange(3, os.sysconf("SC_OPEN_MAX"))
        sys.stdin, sys.stdout, sys.stderr = (
            open(number, mode, buffering, closefd=False)
            for number, mode, buffering in ((0, "r", -1), (1, "w", -1), (2, "w", 1))
        )
        if of.start_new_session:
            os.setsid()
        if of.cwd is not None:
            os.chdir(of.cwd)
        if of.env is not None:
            os.environ.clear()
            os.environ.update(of.env)
        for number in (signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        subprocess.Popen = Forked
        warnings.resetwarnings()  # they are no errors
        sys.argv = [word for word in words[1:] if word != "-u"]
        status = _run()
        threading._shutdown()
    except BaseException:
        status = 1
        with suppress(Exception):
            traceback.print_exc()
    finally:  # whatever happens, this process does not go on with the tests
        with suppress(Exception):
            sys.stdout.flush()
        os._exit(status)


def _run() -> int:
    """The status of the program that `sys.argv` names."""
    try:
        if sys.argv[0] == "-m":
            del sys.argv[0]
            runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
        else:
            runpy.run_path(sys.argv[0], run_name="__main__")
    except SystemExit as stop:
        if isinstance(stop.code, int):
            return stop.code & 255
        if stop.code is not None:
            print(stop.code, file=sys.stderr)
            return 1
    return 0
