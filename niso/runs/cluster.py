"""Runs as jobs of a cluster, through submitit: each in its own folder, and resumed by whatever machine takes it up."""

from __future__ import annotations

import signal
import time
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from niso.errors import InputError, Interrupted
from niso.files.paths import in_shell
from niso.messages import say
from niso.runs import runner
from niso.runs.parallel import Job, create, is_done
from niso.training.run import Run, is_run

if TYPE_CHECKING:
    from submitit.helpers import DelayedSubmission

JOBS = "jobs"
"""Folder of the jobs inside that of their runs: what was submitted, and what they print."""
DEFAULTS = {"timeout_min": 24 * 60, "cpus_per_task": 1, "name": "niso"}
PREEMPTED = 600.0
"""Seconds that a job which has had SIGTERM, and has saved, waits for what comes of it."""
TIMEOUTS = 1000
"""How often a job may reach its time limit and go back to the queue."""


@dataclass(frozen=True)
class Launcher:
    """Who starts the runs.

    Attributes:
        cluster: "slurm", or "local": submitit's processes on this machine, to try out a call without a cluster.
        parameters: those of `submitit.AutoExecutor.update_parameters`.
    """

    cluster: Literal["slurm", "local"]
    parameters: Mapping[str, Any]


class Resume:
    """What a job does: train its run to the end, from wherever that stands."""

    def __init__(self, folder: Path) -> None:
        self.folder = str(folder.resolve())

    def __call__(self) -> dict[str, float]:
        try:
            return runner.resume(Path(self.folder))
        except Interrupted as error:
            if error.number == signal.SIGTERM:
                # SLURM announces a preemption so: a job that ended now would have failed, and not go back to the queue
                say(f"{error}; waiting to be put back into the queue")
                time.sleep(PREEMPTED)  # until SIGUSR2, which submitit waits for, or SIGKILL
            raise

    def checkpoint(self) -> DelayedSubmission:
        """Called by submitit where the job is preempted or its time is over: the same goes back to the queue.

        The run's last checkpoint is at most `--checkpoint-seconds` old.
        """
        from submitit.helpers import DelayedSubmission

        return DelayedSubmission(self)


def submit(jobs: Sequence[Job], launcher: Launcher, out: Path) -> str:
    """Make a job of each run that is not finished; what was submitted, as text. Nothing waits for them.

    Raises:
        InputError: submitit is not installed, or there is no such cluster here, or it refuses the parameters.
    """
    try:
        import submitit
    except ImportError as error:
        raise InputError("--launcher needs submitit: pip install 'niso[cluster]'") from error
    waiting = [job for job in jobs if not is_done(job)]
    try:
        executor = submitit.AutoExecutor(
            out / JOBS,
            launcher.cluster,
            **{f"{launcher.cluster}_max_num_timeout": TIMEOUTS},
        )
        executor.update_parameters(**{**DEFAULTS, **launcher.parameters})
    except (RuntimeError, NameError, ValueError, TypeError, AssertionError) as error:
        raise InputError(f"--launcher {launcher.cluster}: {' '.join(str(error).split())}") from error
    new = [job for job in waiting if not is_run(job.folder)]
    for job in new:
        create(job)
    try:
        with executor.batch() if waiting else nullcontext():
            submitted = [executor.submit(Resume(job.folder)) for job in waiting]
    except RuntimeError as error:  # submitit's, of what the cluster refuses
        for job in new:
            Run(job.folder).withdraw()
        raise InputError(f"--launcher {launcher.cluster}: {' '.join(str(error).split())}") from error
    lines = [f"{job.label}: job {one.job_id}" for job, one in zip(waiting, submitted, strict=True)]
    summary = f"{len(waiting)} of {len(jobs)} runs submitted"
    return "\n".join([*lines, f"{summary}; they print into {out / JOBS}, and `niso report {in_shell(out)}` shows them"])
