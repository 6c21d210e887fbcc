"""`niso resume RUN`: continue an interrupted run, or several."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import ClassVar, Literal

from niso.cli.metrics import print_metrics
from niso.cli.options import Command, RunFolder, check_run, make_launcher
from niso.config import require
from niso.errors import InputError
from niso.named_values import NamedValues


@dataclass(frozen=True)
class Options(Command):
    """Continue an interrupted run, or the folder of several seeds or methods, from the last checkpoints.

    A run whose config.yaml asks for more steps than it has is trained further. Learning rates, weights and noise that
    decay, and eigenvalues that are frozen at first, then go by the new length, and may step back to what was over.
    """

    examples: ClassVar[dict[str, str]] = {
        "niso resume runs/torus-quick-niso-seed0": "goes on from its last checkpoint",
        "niso resume runs/all --parallel 2": "a folder of several, two at a time",
    }

    run: RunFolder
    """The run folder, or the folder of several runs."""
    parallel: int = 1
    """How many of several runs to train side by side, each in a process of its own."""
    launcher: Literal["slurm", "local"] | None = None
    """Make each of several runs that is not finished a job of SLURM, as of `niso run`."""
    job: NamedValues = field(default_factory=dict)
    """With --launcher: parameters of the jobs as submitit names them, e.g. slurm_partition=gpu timeout_min=240."""

    def __post_init__(self) -> None:
        require(self, "parallel", positive=True)
        check_run(self.run)

    def __call__(self) -> None:
        began = time.monotonic()
        from niso.runs import runner, sweep
        from niso.training.run import is_sweep

        if is_sweep(self.run):
            launcher = make_launcher(self.launcher, self.job, self.parallel)
            print(sweep.resume_sweep(self.run, self.parallel, launcher))
        elif self.parallel > 1 or self.launcher or self.job:
            flag = "--launcher" if self.launcher else "--job" if self.job else "--parallel"
            raise InputError(f"{flag} has no effect, leave it out: {self.run} is not a folder of several runs")
        else:
            print_metrics(runner.resume(self.run, began), self.run)
