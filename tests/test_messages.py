"""Words that nobody can read any more end no work."""

import errno
import io
import os
import sys
from contextlib import closing

import pytest

from niso.cli.main import main
from niso.messages import quiet, say, unheard
from niso.training.progress import Bar


@pytest.fixture
def broken():
    """A pipe whose reader is gone."""
    reader, writer = os.pipe()
    os.close(reader)
    with closing(os.fdopen(writer, "w", buffering=1)) as stream:
        yield stream
        os.dup2(os.open(os.devnull, os.O_WRONLY), writer)  # so that it can be closed


def test_a_pipe_without_a_reader(broken, monkeypatch):
    monkeypatch.setattr(sys, "stderr", broken)
    with pytest.raises(BrokenPipeError):
        say("first")
    with unheard():
        say("first")
        with Bar("pretrain", 2, 0, visible=True) as bar:
            bar.show(2, {"loss": 0.25})
        print("last", file=sys.stderr, flush=True)
        assert sys.stderr.fileno() == broken.fileno() and not sys.stderr.isatty()
    assert sys.stderr is broken


def test_what_is_wrong_is_a_warning_where_other_words_are_not_wanted(capsys):
    with quiet():
        say("speed: as ever")
        with pytest.warns(UserWarning, match="^maps of Odd are not orthogonal$"):
            say("! maps of Odd are not orthogonal")
    assert capsys.readouterr().err == ""


def test_the_exit_status_of_a_wrong_call_is_the_same(broken, monkeypatch):
    monkeypatch.setattr(sys, "stderr", broken)
    with pytest.raises(SystemExit) as ended:
        main(["unknown"])
    assert ended.value.code == 2


def test_a_full_disk(monkeypatch, tmp_path):
    class Full(io.StringIO):
        def write(self, _):
            raise OSError(errno.ENOSPC, "No space left on device")

        def fileno(self):
            return log.fileno()

    with open(tmp_path / "log", "w") as log:
        monkeypatch.setattr(sys, "stderr", Full())
        with unheard():
            say("lost")
        assert os.fstat(log.fileno()).st_rdev == os.stat(os.devnull).st_rdev  # where all words go from then on


def test_a_closed_stream(monkeypatch):
    monkeypatch.setattr(sys, "stderr", None)
    with unheard():
        say("nobody listens")


def test_words_are_written_where_they_can_be(capsys):
    with unheard():
        say("heard")
    assert capsys.readouterr().err == "heard\n"
