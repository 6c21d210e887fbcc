import errno
import os
import signal
import tempfile

import pytest

from niso.errors import InputError, Interrupted, NisoError, foreign, nearest, remedy, unreadable


@pytest.mark.parametrize(
    ("name", "clause"),
    [("quik", "; did you mean quick?"), ("zzz", "; choose from quick, paper"), ("", "; choose from quick, paper")],
)
def test_nearest_names_the_closest_or_all(name, clause):
    assert nearest(name, ["quick", "paper"]) == clause


def test_a_message_is_one_printable_line_of_some_length():
    assert str(NisoError("damaged:\n  a \x1b[31mword\x00  of two")) == "damaged: a \\x1b[31mword\\x00  of two"
    long = str(NisoError("begin " + "x" * 5000 + " end: copy it again"))
    assert len(long) < 1000 and long.startswith("begin x") and long.endswith("x end: copy it again") and " … " in long
    assert str(NisoError()) == ""


SIZES = RuntimeError("sizes do not match:\n  expected 3, got 4.\n")


@pytest.mark.parametrize(
    ("raised", "message"),
    [
        (SIZES, "mine fails: RuntimeError: sizes do not match: expected 3, got 4"),
        (KeyError("x"), "mine fails: KeyError: 'x'"),
        (NotImplementedError(), "mine fails: NotImplementedError"),
        (StopIteration(), "mine fails: StopIteration"),
        (SystemExit(3), "mine fails: SystemExit: 3"),
    ],
)
def test_whatever_the_users_code_raises_is_one_line_with_all_that_it_says(raised, message):
    for advice, end in (("", ""), ("mend it", ": mend it")):
        with pytest.raises(InputError) as caught, foreign("mine fails", advice):
            raise raised
        assert str(caught.value) == message + end and caught.value.__cause__ is raised


def test_very_long_words_of_the_users_code_leave_the_problem_and_the_remedy():
    with pytest.raises(InputError) as caught, foreign("mine fails", "mend it"):
        raise ValueError("x\n" * 5000)
    line = str(caught.value)
    assert len(line) < 1000 and line.startswith("mine fails: ValueError: x x") and line.endswith("x: mend it")


@pytest.mark.parametrize("raised", [InputError("mend the data"), KeyboardInterrupt()])
def test_what_is_said_already_and_what_the_user_wants_pass(raised):
    with pytest.raises(type(raised)) as caught, foreign("mine fails"):
        raise raised
    assert caught.value is raised


def test_nearest_takes_any_iterable():
    assert nearest("steps", iter({"step": 1})) == "; did you mean step?"


def test_nearest_takes_capital_letters_for_small_ones():
    assert nearest("X", ["label", "x"]) == "; did you mean x?" and nearest("la", ["LA", "b"]) == "; did you mean LA?"


def test_interrupted_carries_the_signal():
    error = Interrupted("stopped", signal.SIGTERM)
    assert isinstance(error, NisoError) and str(error) == "stopped" and error.number == 15


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (errno.ENOSPC, "free space"),
        (errno.EDQUOT, "quota"),
        (errno.EFBIG, "ulimit -f"),
        (errno.EROFS, "read-only"),
        (errno.EACCES, "permit it"),
        (errno.EXDEV, "another folder"),
    ],
)
def test_each_refusal_of_the_file_system_has_its_own_remedy(number, words):
    assert words in remedy(OSError(number, os.strerror(number)))
    assert "free space" not in remedy(OSError(number, "")) or number in (errno.ENOSPC, errno.EDQUOT)


def test_a_full_disk_of_temporary_files_is_not_taken_for_a_missing_folder(monkeypatch):
    """Python's own error, of which the number says that there is no such file."""
    monkeypatch.setattr(tempfile, "_candidate_tempdir_list", list)
    with pytest.raises(FileNotFoundError) as error:
        tempfile._get_default_tempdir()
    assert "set TMPDIR" in remedy(error.value)


def test_a_file_that_may_not_be_read_is_not_damaged():
    refused = PermissionError(errno.EACCES, "Permission denied", "a.png")
    assert unreadable(refused, "repair it") == "(Permission denied): permit it"
    assert unreadable(ValueError("not a\nzip file"), "repair it") == "(not a zip file): repair it"
