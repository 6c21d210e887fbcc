"""`niso <command>`: a thin door to the library.

Exit status 0 only for work that is finished, 2 for a wrong call or bad input (with one line that says what is wrong
and what to do), 130 after Ctrl-C, 1 for a fault of the program itself.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from niso.errors import InputError, NisoError, nearest

# Two idle-spinning threads on a busy machine make small SVDs 100 times slower; it must be set before torch loads.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

HELP = """usage: niso COMMAND …

Neural Isometries: train, resume, evaluate and report experiments.

commands:
  run EXPERIMENT [options]   train and evaluate in a new run folder, and write a report
  resume RUN                 go on with an interrupted run
  evaluate RUN               compute the figures of a trained run again, with its report
  report RUN…                write a run's report.html again, or compare several runs

experiments: {experiments}
`niso run EXPERIMENT --help` lists presets and all settings. Exit status: 0 finished, 2 wrong call or bad input."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Entry point of the `niso` command."""
    arguments = sys.argv[1:] if arguments is None else list(arguments)
    try:
        status = _dispatch(list(arguments))
    except NisoError as error:
        print(f"niso: {error}", file=sys.stderr)
        status = 2
    except OSError as error:
        where = f" {error.filename}" if error.filename else ""
        print(
            f"niso: {error.strerror or error}{where}: free space or choose another folder, then resume",
            file=sys.stderr,
        )
        status = 2
    except KeyboardInterrupt:
        print("niso: interrupted; `niso resume RUN` goes on from the last checkpoint", file=sys.stderr)
        status = 130
    sys.exit(status)


def _dispatch(arguments: list[str]) -> int:
    from niso import __version__
    from niso.experiments import EXPERIMENTS

    commands: dict[str, Callable[[list[str]], None]] = {
        "run": _run,
        "resume": _resume,
        "evaluate": _evaluate,
        "report": _report,
    }
    if not arguments or arguments[0] in ("-h", "--help", "help"):
        print(HELP.format(experiments=", ".join(EXPERIMENTS)))
        return 0 if arguments else 2
    if arguments[0] == "--version":
        print(f"niso {__version__}")
        return 0
    command, *rest = arguments
    if command not in commands:
        raise InputError(f"unknown command {command!r}{nearest(command, commands)}")
    commands[command](rest)
    return 0


def _run(arguments: list[str]) -> None:
    from niso.cli_options import parse_run

    settings, out = parse_run(arguments)
    from niso.experiments.runner import run

    _show(run(settings, out), out)


def _resume(arguments: list[str]) -> None:
    from niso.experiments.runner import resume

    path = _one_run("resume", arguments)
    _show(resume(path), path)


def _evaluate(arguments: list[str]) -> None:
    from niso.experiments.runner import evaluate

    path = _one_run("evaluate", arguments)
    _show(evaluate(path), path)


def _report(arguments: list[str]) -> None:
    from niso.report import write_comparison, write_report

    out = Path("comparison.html")
    if "--out" in arguments:
        at = arguments.index("--out")
        if at + 1 == len(arguments):
            raise InputError("--out needs a file name")
        out = Path(arguments[at + 1])
        del arguments[at : at + 2]
    if not arguments:
        raise InputError("`niso report` needs one or more run folders")
    runs = [_run_folder(argument) for argument in arguments]
    print(write_report(runs[0]) if len(runs) == 1 else write_comparison(runs, out))


def _one_run(command: str, arguments: list[str]) -> Path:
    if len(arguments) != 1:
        raise InputError(f"`niso {command}` takes one run folder, got {len(arguments)} arguments")
    return _run_folder(arguments[0])


def _run_folder(argument: str) -> Path:
    from niso.run_folder import RunFolder

    if argument.startswith("-"):
        raise InputError(f"unknown option {argument!r}")
    return RunFolder.open(Path(argument)).path


def _show(figures: dict[str, float], path: Path) -> None:
    """Final figures and where the report is; nothing in processes that are not the first."""
    if not figures:
        return
    width = max(map(len, figures))
    for name, value in figures.items():
        print(f"{name:<{width}}  {value:.4g}")
    print(f"\nreport: {path / 'report.html'}")
