"""Several seeds of one run, one after another: each in a run folder of its own, and a report that compares them.

The folder holds `sweep.yaml` (the settings of the first seed, and how many there are), `seed0`, `seed1`, … and
`report.html`. Whatever interrupts it, `niso resume` goes on with the seeds that are not finished.
"""

from __future__ import annotations

import contextlib
import sys
from dataclasses import replace
from pathlib import Path

from niso.checkpoint import write_atomically
from niso.config import read_yaml, to_yaml
from niso.errors import InputError, Interrupted, TrainingError
from niso.experiments import runner
from niso.experiments.reports import compare
from niso.experiments.runner import Settings

FILE = "sweep.yaml"


def is_sweep(path: Path) -> bool:
    """Whether a folder is one of several seeds."""
    return (path / FILE).is_file()


def run_seeds(settings: Settings, seeds: int, out: Path) -> str:
    """Train and evaluate `seeds` seeds, from that of the settings on, in a new folder; their figures as text.

    Raises:
        NisoError: as for `runner.run`. A folder in which nothing could begin is taken back.
    """
    _check(settings)
    if is_sweep(out):
        raise InputError(f"{out} already holds several seeds: go on by `niso resume {out}`, or choose another --out")
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise InputError(f"{out} exists and is not an empty folder: choose another --out")
    try:
        write_atomically(out / FILE, to_yaml({"seeds": seeds, "settings": settings.dump()}).encode())
    except OSError as error:
        raise InputError(f"cannot write to {out} ({error.strerror}): choose another --out") from error
    try:
        return _go(settings, seeds, out)
    except Exception:
        _withdraw(out)
        raise


def resume_seeds(out: Path) -> str:
    """Go on with the seeds that are not finished; as `run_seeds`.

    Raises:
        NisoError: sweep.yaml is damaged, or as for `runner.resume`.
    """
    path = out / FILE
    values = read_yaml(path)
    seeds, settings = values.get("seeds"), values.get("settings")
    if not isinstance(seeds, int) or isinstance(seeds, bool) or seeds < 1 or not isinstance(settings, dict):
        raise InputError(f"{path} is damaged: it must hold a number of seeds, and settings; start anew elsewhere")
    loaded = Settings.load(settings, path)
    _check(loaded)
    return _go(loaded, seeds, out)


def _go(settings: Settings, seeds: int, out: Path) -> str:
    """All seeds in turn. One that diverges does not keep the others from being trained; it is reported at the end."""
    failed, numbers = [], range(settings.seed, settings.seed + seeds)
    for number in numbers:
        folder = out / f"seed{number}"
        try:
            _train(replace(settings, seed=number), folder)
            print(f"seed {number} is finished, {number - settings.seed + 1} of {seeds}", file=sys.stderr)
        except TrainingError as error:
            failed.append(f"seed {number}: {error}")
        except Interrupted as error:
            message = str(error).replace(f"niso resume {folder}", f"niso resume {out}")
            raise Interrupted(f"seed {number}: {message}", error.number) from error
    begun = [run for number in numbers if (run := out / f"seed{number}").is_dir()]
    figures = compare(begun, out / "report.html") if begun else ""
    if failed:
        raise TrainingError(f"{len(failed)} of {seeds} seeds failed: {'; '.join(failed)}")
    return figures


def _train(settings: Settings, folder: Path) -> None:
    """One seed to its end, from wherever it stands."""
    if (folder / "config.yaml").exists():
        runner.resume(folder)
    else:
        runner.run(settings, folder)


def _check(settings: Settings) -> None:
    if settings.hardware.devices * settings.hardware.nodes > 1:
        raise InputError(
            "--seeds trains in one process: leave --devices and --nodes at 1, or start each seed by itself"
        )


def _withdraw(out: Path) -> None:
    """Take back a folder in which no seed has begun."""
    if not any(out.glob("*/config.yaml")):
        (out / FILE).unlink(missing_ok=True)
        with contextlib.suppress(OSError):  # not empty
            out.rmdir()
