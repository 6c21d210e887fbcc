"""`niso resume RUN`: continue an interrupted run, or several."""

from __future__ import annotations

from dataclasses import dataclass

from niso.cli.metrics import print_metrics
from niso.cli.parsing import RunFolder
from niso.config import require


@dataclass(frozen=True)
class Options:
    """Continue an interrupted run, or the folder of several seeds or methods, from the last checkpoints."""

    run: RunFolder
    """The run folder, or the folder of several runs."""
    parallel: int = 1
    """How many of several runs to train side by side, each in a process of its own."""

    def __post_init__(self) -> None:
        require(self, "parallel", positive=True)

    def __call__(self) -> None:
        from niso.runs import runner, sweep

        if sweep.is_sweep(self.run):
            print(sweep.resume_sweep(self.run, self.parallel))
        else:
            print_metrics(runner.resume(self.run), self.run)
