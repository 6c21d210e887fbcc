"""Several seeds and methods of one run: each in a run folder of its own, and a report that compares them.

The folder holds `sweep.yaml` (the settings of the first seed, how many there are, and the methods, with those of their
settings that are not the first's), a run folder for each, named `seed0`, `seed1`, … or, with several methods,
`niso-seed0`, …, and `report.html`. Whatever interrupts it, `niso resume` continues the runs that are not finished.
"""

from __future__ import annotations

import shutil
import sys
import traceback
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from niso.config import read_yaml, to_yaml
from niso.errors import CheckpointError, InputError, Interrupted, TrainingError, first_line
from niso.experiments import EXPERIMENTS
from niso.experiments.registered import registered
from niso.experiments.settings import Settings
from niso.files.folders import write_new
from niso.files.paths import in_shell
from niso.runs import runner
from niso.runs.cluster import JOBS, Launcher, submit
from niso.runs.parallel import Job, run_side_by_side
from niso.runs.report import compare
from niso.runs.unchanged import differing
from niso.training.run import REPORT, SETTINGS, SWEEP, Run, is_run, is_sweep, remove_empty, run_folders


def run_sweep(several: Sequence[Settings], seeds: int, out: Path, parallel: int, launcher: Launcher | None) -> str:
    """Train and evaluate `seeds` seeds, from that of the settings on, of each method; their results as text.

    The settings are one for each method, and differ in nothing else but their config. `parallel` runs are trained at a
    time; if more than one, each is a process of its own. With a `launcher` all become jobs, and what was submitted is
    the text. Errors as in `runner.run`.
    The new folder `out` is removed where nothing could begin.
    """
    first = several[0]
    _check(first)
    if is_sweep(out):
        raise InputError(
            f"{out} already holds several runs: continue them by `niso resume {in_shell(out)}`, or choose another --out"
        )
    own = {settings.method: settings.dump()["config"] for settings in several if settings.config != first.config}
    content = {"seeds": seeds, "methods": [settings.method for settings in several], "settings": first.dump()}
    write_new(out, SWEEP, to_yaml({**content, **({"own": own} if own else {})}))
    try:
        return _go(_jobs(several, seeds, out), out, parallel, launcher)
    except Exception:
        if not run_folders(out):  # no run has begun
            (out / SWEEP).unlink(missing_ok=True)
            shutil.rmtree(out / JOBS, ignore_errors=True)
            remove_empty(out)
        raise


def resume_sweep(out: Path, parallel: int, launcher: Launcher | None) -> str:
    """Continue the runs that are not finished; as `run_sweep`.

    Raises:
        NisoError: sweep.yaml is damaged, or as for `runner.resume`.
    """
    jobs = _jobs_of(out)
    for job in jobs:
        if differing := _differing(job):
            both = f"{job.folder / SETTINGS} and {out / SWEEP}"
            print(f"{both} differ in {differing}: {job.label} goes by the first", file=sys.stderr)
    return _go(jobs, out, parallel, launcher)


def _differing(job: Job) -> str:
    """Settings of a run that was started which are not those that its sweep asks for."""
    if not is_run(job.folder):
        return ""
    try:
        found = Settings.of(Run(job.folder))
    except InputError:  # the run itself will say why
        return ""
    names = differing(found.dump(), job.settings.dump())
    return ", ".join(name for name in names if not name.startswith("hardware."))


def _jobs_of(out: Path) -> list[Job]:
    """The runs that sweep.yaml asks for; errors as of `resume_sweep`."""
    path = out / SWEEP
    values = read_yaml(path)
    seeds, settings = values.get("seeds"), values.get("settings")
    if not isinstance(seeds, int) or isinstance(seeds, bool) or seeds < 1 or not isinstance(settings, dict):
        raise InputError(f"{path} is damaged: it must hold a number of seeds and settings; start again elsewhere")
    loaded = Settings.load(settings, path)
    methods, known = values.get("methods", [loaded.method]), EXPERIMENTS.find(loaded.experiment).methods()
    if not isinstance(methods, list) or not methods or not all(method in known for method in methods):
        raise InputError(f"{path} is damaged: methods must be among {', '.join(known)}; start again elsewhere")
    _check(loaded)
    own = values.get("own") or {}
    if not isinstance(own, dict):
        raise InputError(f"{path} is damaged: own must be settings of methods; start again elsewhere")
    several = [
        Settings.load({**settings, "method": method, "config": own.get(method, settings["config"])}, path)
        for method in methods
    ]
    return _jobs(several, seeds, out)


def evaluate_sweep(out: Path) -> str:
    """Evaluate each run of a folder again; their results as text.

    Raises:
        NisoError: one is not trained to its end, before any is evaluated; or as for `runner.evaluate`.
    """
    for missing in unstarted(out):
        raise InputError(missing)
    runs = Run.find(out)
    for run in runs:
        if not run.finished:
            raise InputError(run.standing.replace(f"niso resume {in_shell(run.path)}", f"niso resume {in_shell(out)}"))
    for number, run in enumerate(runs, start=1):
        runner.evaluate(run.path)
        print(f"{run.name} is evaluated, {number} of {len(runs)}", file=sys.stderr)
    return compare(Run.find(out), out / REPORT)


def unstarted(out: Path) -> list[str]:
    """A line for each run that sweep.yaml asks for and that was never started; errors as of `resume_sweep`."""
    jobs = _jobs_of(out) if is_sweep(out) else []
    return [
        f"{out}: {job.label} has not been started: train it by `niso resume {in_shell(out)}`"
        for job in jobs
        if not is_run(job.folder)
    ]


def _jobs(several: Sequence[Settings], seeds: int, out: Path) -> list[Job]:
    """All methods of the first seed, then of the second, …"""
    jobs = []
    for seed in range(several[0].seed, several[0].seed + seeds):
        for settings in several:
            name, label = f"seed{seed}", f"seed {seed}"
            if len(several) > 1:
                name, label = f"{settings.method}-{name}", f"{settings.method}, {label}"
            jobs.append(Job(label, replace(settings, seed=seed), out / name))
    return jobs


def _go(jobs: Sequence[Job], out: Path, parallel: int, launcher: Launcher | None) -> str:
    """All runs. One that fails does not keep the others from being trained; it is reported at the end."""
    if launcher is not None or parallel > 1:
        _check_known_elsewhere(jobs)
    if launcher is not None:
        return submit(jobs, launcher, out)
    failed = run_side_by_side(jobs, parallel, out) if parallel > 1 else _one_by_one(jobs, out)
    text = ""
    try:
        text = compare(Run.find(out), out / REPORT) if run_folders(out) else ""
    except InputError:
        if not failed:  # else it is damage that made a run fail
            raise
    if failed:
        kind = "runs" if len({job.settings.method for job in jobs}) > 1 else "seeds"
        raise TrainingError(f"{len(failed)} of {len(jobs)} {kind} failed: {'; '.join(failed)}")
    return text


def _check_known_elsewhere(jobs: Sequence[Job]) -> None:
    """InputError where processes of niso itself would not know what is to be run."""
    for job in jobs:
        for kind, names in registered(job.settings, {}, installed=False).items():
            raise InputError(
                f"--parallel and --launcher start processes of niso itself, which do not know the {kind} {min(names)} "
                "of your program: leave them out"
            )


def _one_by_one(jobs: Sequence[Job], out: Path) -> list[str]:
    """All runs in turn, in this process; what went wrong in those that failed.

    Bad input ends everything while no run has begun; later it may concern one run only. A fault does not end it: its
    traceback is shown.
    """
    failed = []
    for index, job in enumerate(jobs, start=1):
        try:
            if is_run(job.folder):
                runner.resume(job.folder)
            else:
                runner.run(job.settings, job.folder)
            print(f"{job.label} is finished, {index} of {len(jobs)}", file=sys.stderr)
        except (TrainingError, CheckpointError, InputError) as error:
            if isinstance(error, InputError) and not run_folders(out):
                raise
            failed.append(f"{job.label}: {error}")
        except Interrupted as error:
            message = str(error).replace(f"niso resume {in_shell(job.folder)}", f"niso resume {in_shell(out)}")
            raise Interrupted(f"{job.label}: {message}", error.number) from error
        except Exception as error:
            traceback.print_exc()
            failed.append(f"{job.label}: {type(error).__name__}: {first_line(error)}")
    return failed


def _check(settings: Settings) -> None:
    if settings.hardware.devices * settings.hardware.nodes > 1:
        raise InputError(
            "--seeds, --methods, --parallel and --launcher train each run in one process: leave --devices and --nodes "
            "at 1, or start each run by itself"
        )
