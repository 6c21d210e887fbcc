"""`niso evaluate RUN`: compute the metrics of a trained run again."""

from __future__ import annotations

from dataclasses import dataclass

from niso.cli.metrics import print_metrics
from niso.cli.parsing import RunFolder


@dataclass(frozen=True)
class Options:
    """Evaluate the weights of a trained run again, and write its metrics, figures and report anew."""

    run: RunFolder
    """The run folder."""

    def __call__(self) -> None:
        from niso.runs.runner import evaluate

        print_metrics(evaluate(self.run), self.run)
