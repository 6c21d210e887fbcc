"""Several processes: results, order of demand, and every way in which they end. The workers import no torch."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from io import StringIO
from pathlib import Path

import pytest
from joblib.externals.loky.backend import context

from niso.data import workers
from niso.data.workers import cores, unordered
from niso.errors import InputError


@pytest.mark.parametrize("count", [1, 2])
def test_results_come_as_they_are_asked_for(count: int) -> None:
    taken: list[int] = []

    def items() -> Iterator[int]:
        for number in range(50):
            taken.append(number)
            yield -number

    results = unordered(abs, items(), count)
    first = next(results)
    assert len(taken) <= 2 * count
    assert sorted([first, *results]) == list(range(50))


@pytest.mark.parametrize(
    ("content", "count"),
    [("100000 100000\n", 1), ("150000 100000\n", 2), ("5000 100000\n", 1), ("max 100000\n", 8), (None, 8)],
)
def test_a_container_has_the_cores_that_it_has_the_time_of(
    monkeypatch: pytest.MonkeyPatch, content: str | None, count: int
) -> None:
    """Docker and Kubernetes limit the time, and show all cores: a process for each would take too much memory."""
    for name in ("process_cpu_count", "cpu_count"):
        monkeypatch.setattr(os, name, lambda: 8, raising=False)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: range(8), raising=False)
    monkeypatch.setattr(os.path, "exists", lambda path: content is not None and str(path).endswith("cpu.max"))
    monkeypatch.setattr(context, "open", lambda path: StringIO(content), raising=False)
    assert cores() == count
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: range(1), raising=False)
    assert cores() == 1


def test_windows_waits_for_61_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    class Asked(Exception):
        pass

    def pool(count: int, *_: object) -> None:
        raise Asked(count)

    monkeypatch.setattr(workers, "ProcessPoolExecutor", pool)
    for platform, most in (("win32", 61), ("linux", 96)):
        monkeypatch.setattr(workers.sys, "platform", platform)
        with pytest.raises(Asked, match=str(most)):
            next(unordered(abs, [1], 96))


def test_errors_of_the_function_pass_through() -> None:
    with pytest.raises(ValueError, match="invalid literal"):
        list(unordered(int, ["1", "x", "3"], 2))
    with pytest.raises(InputError, match="workers must be at least 1, got 0"):
        unordered(abs, [1], 0)


def test_a_killed_process_is_named() -> None:
    with pytest.raises(InputError, match="was killed, perhaps for memory: give the same command again"):
        list(unordered(os._exit, [9], 2))


SCRIPT = """
import time
from niso.data.workers import unordered
try:
    for _ in unordered(time.sleep, {items}, 2):
        print("done", flush=True)
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""


def start(folder: Path, items: list[int]) -> subprocess.Popen[str]:
    """A script without `if __name__ == "__main__"`, in a process group of its own."""
    (folder / "script.py").write_text(SCRIPT.format(items=items))
    command = [sys.executable, str(folder / "script.py")]
    return subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # ignored by jobs in the background
    )


def test_a_script_needs_no_guard(tmp_path: Path) -> None:
    assert start(tmp_path, [0, 0, 0]).communicate(timeout=60)[0] == "done\n" * 3


@pytest.mark.parametrize("interrupt", [True, False], ids=["Ctrl-C", "killed"])
def test_no_process_outlives_the_first(tmp_path: Path, interrupt: bool) -> None:
    """The end of the pipe is seen when every process that may write to it has ended."""
    process = start(tmp_path, [0, 600, 600])
    assert process.stdout is not None and process.stdout.readline() == "done\n"
    os.killpg(process.pid, signal.SIGINT) if interrupt else process.kill()
    out, err = process.communicate(timeout=60)
    assert out == ("interrupted\n" if interrupt else "") and "leaked" not in err


def test_cores_on_other_systems(monkeypatch: pytest.MonkeyPatch) -> None:
    assert cores() >= 1
    monkeypatch.setattr(workers.sys, "platform", "darwin")
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    assert cores() >= 1
