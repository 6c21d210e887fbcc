"""Signals while a model is trained; processes that wait for others are in test_processes.py."""

import signal
import subprocess
import sys
import threading
import time
from types import SimpleNamespace

import pytest

from niso.training import interruption as module
from niso.training.interruption import SIGNALS, interruption


@pytest.fixture
def ended(monkeypatch):
    """Statuses that the process would have ended with."""
    statuses = []
    monkeypatch.setattr(module.os, "_exit", statuses.append)
    monkeypatch.setattr(module, "SAME", 0.1)
    return statuses


@pytest.fixture
def clock(monkeypatch):
    """What passes for time, in its only entry: that of a busy machine passes where a test does not see it."""
    now = [0.0]
    monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: now[0]))
    return now


def wait_until(condition, seconds=10.0):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.fixture
def heeded():
    """Signals are heeded, though the tests themselves may run under nohup."""
    before = {number: signal.signal(number, signal.SIG_DFL) for number in SIGNALS}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("number", SIGNALS)
def test_the_first_signal_is_noted_and_handlers_come_back(ended, heeded, clock, number):
    before = signal.getsignal(number), signal.set_wakeup_fd(-1)
    with interruption("") as received:
        assert received() == 0
        signal.raise_signal(number)
        assert received() == number
        other = signal.SIGINT if number == signal.SIGTERM else signal.SIGTERM
        signal.raise_signal(other)  # so soon after the first it counts as the same
        assert received() == number
    assert (signal.getsignal(number), signal.set_wakeup_fd(-1)) == before and ended == []


@pytest.mark.skipif(not hasattr(signal, "SIGHUP"), reason="there is no SIGHUP")
def test_a_closed_terminal_is_ignored_where_nohup_has_it_so(ended):
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with interruption("") as received:
            signal.raise_signal(signal.SIGHUP)
            assert received() == 0
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN and ended == []
    finally:
        signal.signal(signal.SIGHUP, before)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_second_signal_ends_the_process_at_once(ended, number, capfd):
    with interruption("the last checkpoint stays"):
        signal.raise_signal(signal.SIGTERM)
        time.sleep(0.2)
        assert ended == []
        signal.raise_signal(number)
        wait_until(lambda: ended)
    assert ended == [128 + number]
    assert capfd.readouterr().err == "niso: ended at once: a second signal came; the last checkpoint stays\n"


BLOCKED = """
import ctypes
from niso.training.interruption import interruption
with interruption("the last checkpoint stays"):
    print("inside", flush=True)
    lock = ctypes.create_string_buffer(128)
    for _ in range(2):  # the second time waits for ever
        ctypes.CDLL(None).pthread_mutex_lock(lock)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="a lock of zeros is Linux's")
def test_a_second_signal_ends_a_process_whose_main_thread_runs_no_python():
    process = subprocess.Popen(
        [sys.executable, "-c", BLOCKED], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None and process.stdout.readline() == "inside\n"
    process.send_signal(signal.SIGTERM)
    time.sleep(module.SAME + 0.2)
    assert process.poll() is None
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=10)
    assert process.returncode == 128 + signal.SIGTERM and "the last checkpoint stays" in err


@pytest.mark.slow
@pytest.mark.parametrize("others", [False, True])
def test_waiting_for_others_after_a_signal_comes_to_an_end(ended, monkeypatch, others, capfd):
    monkeypatch.setattr(module, "PATIENCE", 0.2)
    with interruption("", others) as received:
        received()
        time.sleep(0.3)
        signal.raise_signal(signal.SIGTERM)
        if others:
            wait_until(lambda: ended)
        else:
            time.sleep(1.2)
    assert set(ended) == ({128 + signal.SIGTERM} if others else set())
    assert capfd.readouterr().err == ""  # another process says it


@pytest.mark.parametrize("begins", [False, True])
def test_a_signal_in_a_long_step_is_answered(ended, heeded, clock, monkeypatch, begins, capfd):
    monkeypatch.setattr(module, "SLOW", 0.2)
    lines = list[str]()
    with interruption("the last checkpoint stays") as received:
        signal.raise_signal(signal.SIGTERM)
        while len(lines) < 8 or (not begins and not any(lines) and len(lines) < 200):
            clock[0] += 0.15
            if begins:  # another step
                received()
            time.sleep(0.06)  # in which the signal is looked at once
            lines.append(capfd.readouterr().err)
    said = "niso: this step is finished and saved first; a second signal ends it at once\n"
    assert ended == [] and "".join(lines) == ("" if begins else said)


@pytest.mark.slow
def test_a_process_that_makes_steps_is_not_ended(ended, clock, monkeypatch):
    monkeypatch.setattr(module, "SLOW", 0.2)
    monkeypatch.setattr(module, "PATIENCE", 0.5)
    with interruption("", others=True) as received:
        signal.raise_signal(signal.SIGTERM)
        for _ in range(8):
            clock[0] += 0.4
            received()
            time.sleep(0.06)  # in which it is looked at once
    assert ended == []


def test_what_a_library_handles_in_c_is_left_to_it(heeded, monkeypatch):
    getsignal = signal.getsignal
    monkeypatch.setattr(signal, "getsignal", lambda n: None if n == signal.SIGTERM else getsignal(n))
    with interruption(""):
        assert getsignal(signal.SIGTERM) is signal.SIG_DFL and getsignal(signal.SIGINT) is not signal.SIG_DFL
    assert getsignal(signal.SIGINT) is signal.SIG_DFL


def test_the_thread_ends_where_handlers_do_not_come_back(heeded, monkeypatch):
    def refuse(*_):
        raise TypeError

    with pytest.raises(TypeError), monkeypatch.context() as patch, interruption(""):
        patch.setattr(signal, "signal", refuse)
    wait_until(lambda: all(thread.name != "niso-signals" for thread in threading.enumerate()))


def test_other_threads_leave_signals_alone():
    seen = []

    def work():
        with interruption("") as received:
            seen.append((received(), signal.getsignal(signal.SIGTERM)))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [(0, signal.getsignal(signal.SIGTERM))]


def test_the_thread_ends_with_the_context():
    with interruption(""):
        assert any(thread.name == "niso-signals" for thread in threading.enumerate())
    wait_until(lambda: all(thread.name != "niso-signals" for thread in threading.enumerate()))
