"""What goes wrong outside the program; the command line turns these into one line and exit status 2."""

from __future__ import annotations

import difflib
import errno
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

LONGEST = 1000
"""Characters of a message, of which damaged files may quote many."""


class NisoError(Exception):
    """A problem that the user can mend. The message is one line: what is wrong and what to do."""

    def __init__(self, message: str = "") -> None:
        super().__init__(one_line(message))


def one_line(message: str) -> str:
    """A message, or a name, without line breaks, other control characters, and the middle of what is too long."""
    line = " ".join(part.strip() for part in message.splitlines())
    line = "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in line)
    return line if len(line) <= LONGEST else f"{line[: LONGEST // 2]} … {line[-LONGEST // 3 :]}"


class InputError(NisoError):
    """Data, an option or a configuration file that cannot be used."""


@contextmanager
def foreign(problem: str, remedy: str = "") -> Iterator[None]:
    """Around the user's code, which may raise anything: of that, one line tells the kind and all that it says.

    Args:
        problem: what that code does not do, such as "the networks do not take observations (2, 3)".
        remedy: what to do, where that is known.

    Raises:
        InputError: the code raises one, which stays as it is, or anything else.
    """
    try:
        yield
    except InputError:
        raise
    except (Exception, SystemExit) as error:
        parts = problem, type(error).__name__, " ".join(str(error).split()).rstrip("."), remedy
        raise InputError(": ".join(part for part in parts if part)) from error


class CheckpointError(NisoError):
    """A checkpoint that cannot be read, written, or used with this model."""


class TrainingError(NisoError):
    """Training cannot go on, e.g. after a loss that is not a number."""


class Interrupted(NisoError):
    """A signal ended the work in good order; `number` is the signal's."""

    def __init__(self, message: str, number: int) -> None:
        super().__init__(message)
        self.number = number


class OtherProcessError(NisoError):
    """Another process of the same run failed, and is the one that says why."""


_ASKED = re.compile(r"(say|add) --([a-z]+) ([a-z][a-z0-9]*)\b(?![-.])")
"""A flag that a message asks for, and its value."""
_FLAG = re.compile(r"--([a-z][a-z.-]*[a-z])( (?=\d|[a-z-]+\)|\S+ (acts|does|leaves|needs)\b))?")
"""A flag of the command line in a message, with the space before its value where it has one."""


def in_words_of_python(text: str) -> str:
    """A text that names arguments where it names flags of the command line: `transform=`, not `--transform`."""
    text = _ASKED.sub(r'\1 \2="\3"', text)
    return _FLAG.sub(lambda flag: f"{flag[1].replace('-', '_')}=", text)


def nearest(name: str, known: Iterable[str]) -> str:
    """A clause that names the closest known word, for error messages: '; did you mean quick?' or the choices.

    Capital letters count as small ones.
    """
    choices = list(known)
    small = {choice.lower(): choice for choice in choices}
    close = difflib.get_close_matches(name.lower(), small, n=1, cutoff=0.5)
    return f"; did you mean {small[close[0]]}?" if close else f"; choose from {', '.join(choices)}"


def counted(number: int, one: str, several: str | None = None) -> str:
    """A number and a noun: "1 frame", "2 frames"; `several` is a plural that is not formed by an s."""
    return f"{number:,} {one if number == 1 else several or f'{one}s'}"


_PERMISSION = "permit it, or choose another folder"
_FILE = "a file is where a folder must be: choose another folder"
_REMEDIES = {
    errno.ENOSPC: "free space",
    errno.EDQUOT: "free space, or have the quota raised",
    errno.EFBIG: "raise the limit of `ulimit -f`, or choose a disk that takes larger files",
    errno.EACCES: _PERMISSION,
    errno.EPERM: _PERMISSION,
    errno.EROFS: "choose a folder on a disk that is not read-only",
    errno.EEXIST: _FILE,
    errno.ENOTDIR: _FILE,
    errno.EISDIR: "a folder is where a file must be: choose another name",
    errno.ENOENT: "choose a place that exists",
    errno.ENAMETOOLONG: "choose a shorter name",
    errno.EIO: "the disk does not answer: choose another one",
}


def remedy(error: OSError) -> str:
    """What to do where the file system refuses."""
    if error.errno == errno.ENOENT and "temporary directory" in str(error):  # of `tempfile`, which torch asks for one
        return "free space there, or set TMPDIR to a folder that can be written to"
    return _REMEDIES.get(error.errno or 0, "try another folder")


def unreadable(error: Exception, remedy: str, reason: str = "") -> str:
    """Why a file cannot be read, by default in the error's own words, and what to do: `remedy`, unless it may not be
    read at all."""
    if isinstance(error, PermissionError):
        return f"({error.strerror}): permit it"
    return f"({reason or ' '.join(str(error).split())}): {remedy}"


def first_line(error: BaseException) -> str:
    """The first line of what another library says, without a full stop; the kind of error where it says nothing."""
    return next(iter(str(error).strip().splitlines()), type(error).__name__).strip().rstrip(".")


def some_of(names: Sequence[str]) -> str:
    """A few names, in words."""
    return ", ".join([*names[:3], *(["…"] if len(names) > 3 else [])])
