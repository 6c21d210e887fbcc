"""Forked programs are processes as others are."""

import os
import signal
import sys
from subprocess import PIPE

import pytest

from tests.forked import FORKS, Popen

pytestmark = pytest.mark.skipif(not FORKS, reason="programs are not forked here")

OUTER = """
import os, subprocess, sys
print(sys.argv[1:], sys.stdin.read(), os.environ["WORD"], os.getcwd(), os.getsid(0) == os.getpid())
inner = subprocess.run([sys.executable, "inner.py"], capture_output=True, text=True)
print(inner.stdout, inner.returncode, inner.stderr.splitlines()[-1])
sys.exit("the end")
"""
INNER = """
import sys
print(len(sys.argv), end="")
1 / 0
"""


def test_streams_words_and_status_are_those_of_the_program(tmp_path):
    (tmp_path / "outer.py").write_text(OUTER)
    (tmp_path / "inner.py").write_text(INNER)
    words = [sys.executable, "-u", str(tmp_path / "outer.py"), "a", "b"]
    pipes, own = dict.fromkeys(("stdin", "stdout", "stderr"), PIPE), {"cwd": tmp_path, "env": {"WORD": "word"}}
    process = Popen(words, **pipes, **own, text=True, start_new_session=True)
    out, err = process.communicate("given")
    assert out.splitlines() == [
        f"['a', 'b'] given word {tmp_path} True",
        "1 1 ZeroDivisionError: division by zero",
    ]
    assert (process.returncode, err) == (1, "the end\n") and "WORD" not in os.environ


def test_a_signal_ends_it(tmp_path):
    (tmp_path / "waits.py").write_text("import time\nprint(1, flush=True)\ntime.sleep(60)")
    process = Popen([sys.executable, str(tmp_path / "waits.py")], stdout=PIPE)
    assert process.stdout.read(1) == b"1"
    process.terminate()
    assert process.wait(30) == -signal.SIGTERM
    process.stdout.close()
