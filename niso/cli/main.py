"""`niso COMMAND …`: a thin door to the library.

Exit status 0 only for work that is finished, 2 for a wrong call or bad input (with one line that says what is wrong
and what to do), 3 if a part of the input was refused and the rest was used, 128 + its number after a signal (Ctrl-C:
130), 1 for a fault of the program itself.
"""

from __future__ import annotations

import errno
import io
import os
import re
import shlex
import signal
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib import import_module
from threading import current_thread, main_thread

import niso
from niso.errors import InputError, Interrupted, NisoError, OtherProcessError, first_line, nearest, remedy
from niso.messages import unheard

# Two idle-spinning threads on a busy machine make small SVDs 100 times slower; it must be set before torch loads.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

COMMANDS = {
    "run": ("EXPERIMENT", "train and evaluate in a new run folder; several seeds and methods, too"),
    "resume": ("RUN", "continue an interrupted run, or several"),
    "evaluate": ("RUN", "compute the metrics of a trained run again, or of several, with their reports"),
    "report": ("RUN…", "write a run's report again, or compare several runs or records"),
    "record": ("RUN…", "keep settings, facts and metrics of finished runs as small JSON files"),
    "features": ("RUN DATA", "write what a trained model makes of observations"),
    "map": ("RUN A B", "solve for the map between observations, and apply it to others"),
    "find": ("RUN GALLERY QUERIES", "find observations by transformed views of them"),
    "predict": ("RUN DATA", "classify observations by a run whose data had labels"),
    "export": ("RUN", "write a trained model as programs for PyTorch or ONNX runtimes"),
    "models": ("[NAME]", "list the trained models that come with niso, or show the card of one"),
    "pose": ("VIDEO", "read a camera's trajectory off a video"),
    "view": ("RUN…", "show trajectories of pose runs in 3-D, in a web browser"),
    "data shapes": ("OUT", "make classes of closed meshes, or deform given ones into classes"),
    "data prepare shapes": ("IN OUT", "map closed meshes and conformal variants to the sphere, for shapes"),
    "data prepare co3d": ("IN OUT", "crop and resize CO3Dv2, from its own layout, for pose"),
    "data prepare video": ("IN OUT", "the same for video files and folders of frames, with cameras or without"),
}
"""Words of a command: what it takes and does. `niso.cli.WORDS` is imported only when it is called."""

ABOUT = {
    "": "Neural Isometries: train on pairs of observations, evaluate, report, and use what was trained.",
    "data ": "Make and prepare data for the experiments shapes and pose.",
    "data prepare ": "Prepare your own data, once, for the experiments shapes and pose.",
}
"""What a group of commands is for."""

HELP = """usage: niso {group}COMMAND …

{about}

commands:
{commands}

experiments: {experiments}
`niso COMMAND --help` shows what a command does and its main options, `--help-all` every option.
Exit status: 0 finished, 2 wrong call or bad input, 3 a part of the input was refused (of pose and data prepare,
which use the rest)."""

AGAIN = "give the command again, or `niso resume` the run"
INTERRUPTED = f"niso: interrupted; {AGAIN} that it has begun"
HOME = re.compile(r"^(--[\w.-]+=|)(~(?=/|$))")
"""A user's folder, where the shell has left it: in quotation marks, and after an option's =."""
COMPILER = f"perhaps its temporary files were removed, or have no room; {AGAIN}"


def main(arguments: Sequence[str] | None = None) -> None:
    """Entry point of the `niso` command."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # as stderr: some terminals and pipes cannot show ‖τ‖ or …
    with unheard():
        status = _status(list(sys.argv[1:] if arguments is None else arguments))
    sys.exit(status)


def _status(arguments: list[str]) -> int:
    """The exit status of a call, of which a line says what went wrong, if anything did."""
    try:
        with warnings.catch_warnings(), _last_words():
            warnings.showwarning = _warner()
            # torch's compiler advises to round products of float32 matrices, as niso does not
            warnings.filterwarnings("ignore", "TensorFloat32 tensor cores")
            return _dispatch(arguments)
    except OtherProcessError:
        pass
    except NisoError as error:
        print(f"niso: {error}", file=sys.stderr)
        return 128 + error.number if isinstance(error, Interrupted) else 2
    except (MemoryError, RuntimeError) as error:
        if _is_memory(error):
            problem = "there is not enough memory for this: take smaller networks, grids or batches"
        elif any(kind.__name__ == "BackendCompilerFailed" for kind in type(error).__mro__):  # of torch, slow to import
            problem = f"torch's compiler failed ({first_line(error)}): {COMPILER}"
        else:
            raise
        print(f"niso: {problem}", file=sys.stderr)
    except BrokenPipeError:  # of `niso … | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 128 + getattr(signal, "SIGPIPE", 13)  # Windows has no such signal
    except UnicodeEncodeError as error:
        name = error.object[max(0, error.start - 60) : error.end + 60].encode(errors="backslashreplace").decode()
        print(f"niso: {name!r} holds bytes that are no text: rename the file or folder", file=sys.stderr)
    except OSError as error:
        if error.errno is None or isinstance(error, ConnectionError):
            raise  # not of the file system: perhaps of a user's own code
        print(f"niso: {_refusal(error, arguments)}", file=sys.stderr)
    except KeyboardInterrupt:
        print(INTERRUPTED, file=sys.stderr)
        return 128 + signal.SIGINT
    return 2


@contextmanager
def _last_words() -> Iterator[None]:
    """While inside, SIGTERM ends the process as it would, but with a line. Training heeds it itself: it saves first.

    A program that heeds SIGTERM itself, or ignores it, goes on to do so.
    """
    if current_thread() is not main_thread() or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        yield
        return

    def end(number: int, _: object) -> None:
        below = "\n\x1b[?25h" if sys.stderr.isatty() else ""  # a progress bar, which hides the cursor
        with suppress(OSError):
            os.write(2, f"{below}{INTERRUPTED}\n".encode())
        signal.signal(number, signal.SIG_DFL)
        signal.raise_signal(number)

    signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _is_memory(error: Exception) -> bool:
    """Whether memory ran out, of the CPU or of a GPU; torch tells it by words alone."""
    words = ("out of memory", "can't allocate memory", "STATUS_ALLOC_FAILED")  # the last of cuBLAS, cuDNN and cuSOLVER
    return isinstance(error, MemoryError) or any(word in str(error) for word in words)


def _refusal(error: OSError, arguments: Sequence[str]) -> str:
    """What the file system refused, and what to do."""
    full = error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
    again = f", then {AGAIN if arguments[:1] == ['run'] else 'give the command again'}" if full else ""
    places = [os.fsdecode(name) for name in (error.filename, error.filename2) if isinstance(name, str | bytes)]
    problem = " ".join(str(error.strerror or error).split())
    return f"{problem}{f' ({places[-1]})' if places else ''}: {remedy(error)}{again}"


def _warner() -> Callable[..., None]:
    """What prints a warning in one line, without the place in the program, and each text once: `warnings` itself
    forgets what was said as soon as a library changes its filters for a while."""
    said = set[str]()

    def warn(message: Warning | str, *_: object, **__: object) -> None:
        line = " ".join(str(message).split())
        if line not in said:
            said.add(line)
            print(f"niso: warning: {line}", file=sys.stderr)

    return warn


def _dispatch(arguments: list[str]) -> int:
    began = time.monotonic()  # before what is slow to import
    arguments = [HOME.sub(_expanded, word) for word in arguments]
    if arguments[:1] == ["help"]:
        arguments = [*arguments[1:], "--help"]
    if any(not word or (word.startswith("--") and word.endswith("=")) for word in arguments):  # "" would be this folder
        call = shlex.join(["niso", *arguments])
        raise InputError(f"{call} has an empty argument: give a value; is a variable of the shell not set?")
    for name in COMMANDS:
        words = name.split()
        if arguments[: len(words)] == words:
            command, rest = import_module(".".join(["niso.cli", *words])), arguments[len(words) :]
            if name == "run":  # whose options depend on its first argument
                return int(command.main(rest, began) or 0)
            from niso.cli.parsing import parse_command  # tyro is slow to import

            return parse_command(command.Options, f"niso {name}", rest)() or 0
    if not arguments:
        print(_help(""), file=sys.stderr)
        return 2
    if arguments[0] == "--version" and len(arguments) > 1:
        raise InputError(f"--version takes nothing: leave {arguments[1]!r} out")
    if arguments[0] == "--version":
        print(f"niso {niso.__version__}")
        return 0
    group = ""  # of commands, such as "data "
    while arguments and any(name.startswith(f"{group}{arguments[0]} ") for name in COMMANDS):
        group += f"{arguments.pop(0)} "
    choices = dict.fromkeys(name.removeprefix(group).split()[0] for name in COMMANDS if name.startswith(group))
    if not arguments:
        raise InputError(f"`niso {group.strip()}` needs a command; choose from {', '.join(choices)}")
    if arguments[0] in ("-h", "--help"):
        print(_help(group))
        return 0
    known = [*choices, *([] if group else ["--version", "--help"])]
    raise InputError(f"unknown command '{group}{arguments[0]}'{nearest(arguments[0], known)}")


def _expanded(found: re.Match[str]) -> str:
    return f"{found[1]}{os.path.expanduser(found[2])}"


def _help(group: str) -> str:
    """The help text of a group of commands; of all if it is empty."""
    from niso.experiments import EXPERIMENTS

    calls = {f"{name} {takes}": does for name, (takes, does) in COMMANDS.items() if name.startswith(group)}
    lines = "\n".join(f"  {call:<{max(map(len, calls))}}  {does}" for call, does in calls.items())
    return HELP.format(group=group, about=ABOUT[group], commands=lines, experiments=", ".join(EXPERIMENTS))


if __name__ == "__main__":
    main()
