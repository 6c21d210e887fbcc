"""Folders for one process at a time."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

import pytest
from filelock import SoftFileLock

from niso.errors import InputError
from niso.files.locks import locked


def test_a_locked_folder_is_refused_until_it_is_free(tmp_path: Path) -> None:
    with locked(tmp_path):
        with pytest.raises(InputError, match="another process works on"), locked(tmp_path):
            pass
    with locked(tmp_path):
        pass


def test_a_lock_that_outlives_its_process_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("niso.files.locks.FileLock", SoftFileLock)  # as where the file system knows no locks
    held = SoftFileLock(tmp_path / ".lock")
    with held, pytest.raises(InputError, match=r"if none does any more, remove .*\.lock$"), locked(tmp_path):
        pass


def test_waiting_for_a_locked_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("niso.files.locks.PATIENCE", 0.05)
    order, heard = list[str](), threading.Event()

    def hear(line: str) -> None:
        order.append(line)
        heard.set()

    monkeypatch.setattr("niso.files.locks.say", hear)

    def second() -> None:
        with locked(tmp_path, wait=True):
            order.append("second")

    with locked(tmp_path):
        thread = threading.Thread(target=second)
        thread.start()
        assert heard.wait(60)
        order.append("first")
    thread.join()
    waiting = f"waiting for another process that works on {tmp_path}, and locks {tmp_path / '.lock'}"
    assert order == [waiting, "first", "second"]


HOLD = """
import time
from pathlib import Path
from niso.files.locks import locked
with locked(Path({folder!r})):
    print("locked", flush=True)
    time.sleep(600)
"""


def test_a_lock_ends_with_its_process(tmp_path: Path) -> None:
    command = [sys.executable, "-c", HOLD.format(folder=str(tmp_path))]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None and process.stdout.readline() == "locked\n"
            with pytest.raises(InputError, match="wait for it, or stop it first"), locked(tmp_path):
                pass
        finally:
            process.kill()
    with locked(tmp_path):
        pass
