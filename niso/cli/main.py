"""`niso <command>`: a thin door to the library.

Exit status 0 only for work that is finished, 2 for a wrong call or bad input (with one line that says what is wrong
and what to do), 128 + its number after a signal (Ctrl-C: 130), 1 for a fault of the program itself.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from niso.errors import InputError, Interrupted, NisoError, OtherProcessError, nearest

# Two idle-spinning threads on a busy machine make small SVDs 100 times slower; it must be set before torch loads.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

HELP = """usage: niso COMMAND …

Neural Isometries: train, resume, evaluate and report experiments.

commands:
  run EXPERIMENT [options]   train and evaluate in a new run folder, and write a report; --seeds N, --methods …: several
                             runs, --parallel M at a time
  resume RUN [--parallel M]  go on with an interrupted run, or with several
  evaluate RUN               compute the figures of a trained run again, with its report
  report RUN… [--out FILE]   write a run's report.html again, or compare several runs, records, or folders of them
  record RUN… [--to FOLDER]  keep settings, facts and figures of finished runs as small JSON files (in results/)
  pose VIDEO [options]       read a camera's trajectory off a video by a finished run of the pose experiment
  view RUN…                  show trajectories of pose runs in 3-D, in a web browser
  data COMMAND …             make and prepare data sets, see `niso data --help`

experiments: {experiments}
`niso run EXPERIMENT --help` lists presets and all settings. Exit status: 0 finished, 2 wrong call or bad input."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Entry point of the `niso` command."""
    arguments = sys.argv[1:] if arguments is None else list(arguments)
    try:
        status = _dispatch(list(arguments))
    except OtherProcessError:
        status = 2
    except NisoError as error:
        print(f"niso: {error}", file=sys.stderr)
        status = 128 + error.number if isinstance(error, Interrupted) else 2
    except BrokenPipeError:  # of `niso … | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        status = 128 + signal.SIGPIPE
    except OSError as error:
        where = f" {error.filename}" if error.filename else ""
        print(
            f"niso: {error.strerror or error}{where}: free space or choose another folder, then resume",
            file=sys.stderr,
        )
        status = 2
    except KeyboardInterrupt:
        print("niso: interrupted; `niso resume RUN` goes on from the last checkpoint", file=sys.stderr)
        status = 128 + signal.SIGINT
    sys.exit(status)


def _dispatch(arguments: list[str]) -> int:
    from niso import __version__
    from niso.experiments import EXPERIMENTS

    commands: dict[str, Callable[[list[str]], int | None]] = {
        "run": _run,
        "resume": _resume,
        "evaluate": _evaluate,
        "report": _report,
        "record": _record,
        "pose": _pose,
        "view": _view,
        "data": _data,
    }
    wants_help = bool({"-h", "--help"} & set(arguments)) or arguments[:1] == ["help"]
    if not arguments or (wants_help and not _is_run_of_something(arguments)):
        print(HELP.format(experiments=", ".join(EXPERIMENTS)), file=None if arguments else sys.stderr)
        return 0 if arguments else 2
    if arguments[0] == "--version":
        print(f"niso {__version__}")
        return 0
    command, *rest = arguments
    if command not in commands:
        raise InputError(f"unknown command {command!r}{nearest(command, commands)}")
    return commands[command](rest) or 0


def _is_run_of_something(arguments: list[str]) -> bool:
    """Whether it is `niso run EXPERIMENT …` or another command that has help texts of its own."""
    return arguments[0] in ("pose", "view", "data") or (arguments[0] == "run" and not arguments[1].startswith("-"))


def _run(arguments: list[str]) -> None:
    from niso.cli.run import parse_run

    call = parse_run(arguments)
    if call.seeds > 1 or len(call.methods) > 1:
        from niso.runs.sweep import run_sweep

        print(run_sweep(call.settings, call.seeds, call.methods, call.out, call.parallel))
        return
    from niso.runs.runner import run

    _show(run(call.settings, call.out), call.out)


def _resume(arguments: list[str]) -> None:
    from niso.runs.runner import resume
    from niso.runs.sweep import is_sweep, resume_sweep

    parallel = str(_take("--parallel", arguments, Path("1")))
    if not parallel.isdecimal() or int(parallel) < 1:
        raise InputError(f"--parallel must be a whole number, at least 1, got {parallel}")
    if len(arguments) == 1 and is_sweep(Path(arguments[0])):
        print(resume_sweep(Path(arguments[0]), int(parallel)))
        return
    path = _one_run("resume", arguments)
    _show(resume(path), path)


def _evaluate(arguments: list[str]) -> None:
    from niso.runs.runner import evaluate

    path = _one_run("evaluate", arguments)
    _show(evaluate(path), path)


def _report(arguments: list[str]) -> None:
    from niso.runs.comparison import report

    out = _take("--out", arguments, Path())
    print(report(_paths("report", arguments), None if out == Path() else out))


def _record(arguments: list[str]) -> None:
    from niso.runs import Run
    from niso.runs.record import write_record

    folder = _take("--to", arguments, Path("results"))
    for run in [run for path in _paths("record", arguments) for run in Run.find(path)]:
        print(write_record(run, folder))


def _pose(arguments: list[str]) -> int:
    from niso.cli.pose import main

    return main(arguments)


def _view(arguments: list[str]) -> int:
    from niso.cli.view import main

    return main(arguments)


def _data(arguments: list[str]) -> int:
    from niso.cli.data.main import main

    return main(arguments)


def _take(option: str, arguments: list[str], default: Path) -> Path:
    """Remove `option VALUE` from the arguments and return the value, mostly a path."""
    if option not in arguments:
        return default
    at = arguments.index(option)
    if at + 1 == len(arguments):
        raise InputError(f"{option} needs a value")
    path = Path(arguments[at + 1])
    del arguments[at : at + 2]
    return path


def _paths(command: str, arguments: list[str]) -> list[Path]:
    if not arguments:
        raise InputError(f"`niso {command}` needs one or more run folders")
    return [_path(argument) for argument in arguments]


def _one_run(command: str, arguments: list[str]) -> Path:
    if len(arguments) != 1:
        raise InputError(f"`niso {command}` takes one run folder, got {len(arguments)} arguments")
    from niso.training.run import Run

    return Run.open(_path(arguments[0])).path


def _path(argument: str) -> Path:
    if argument.startswith("-"):
        raise InputError(f"unknown option {argument!r}")
    return Path(argument)


def _show(figures: dict[str, float], path: Path) -> None:
    """Final figures and where the report is; nothing in processes that are not the first."""
    if not figures:
        return
    width = max(map(len, figures))
    for name, value in figures.items():
        print(f"{name:<{width}}  {value if isinstance(value, int) else format(value, '.4g')}")
    print(f"\nreport: {path / 'report.html'}")
