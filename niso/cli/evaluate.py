"""`niso evaluate RUN`: compute the metrics of a trained run again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from niso.cli.metrics import print_metrics
from niso.cli.options import Command, RunFolder, check_run


@dataclass(frozen=True)
class Options(Command):
    """Evaluate the weights of a trained run again, or of each run in a folder of several seeds or methods, and write
    metrics, figures and reports anew."""

    examples: ClassVar[dict[str, str]] = {
        "niso evaluate runs/torus-quick-niso-seed0": "metrics, figures and report anew",
        "niso evaluate runs/all": "each run of a folder of several",
    }

    run: RunFolder
    """The run folder, or the folder of several runs."""

    def __post_init__(self) -> None:
        check_run(self.run)

    def __call__(self) -> None:
        from niso.runs import runner, sweep
        from niso.training.run import is_sweep

        if is_sweep(self.run):
            print(sweep.evaluate_sweep(self.run))
        else:
            print_metrics(runner.evaluate(self.run), self.run)
