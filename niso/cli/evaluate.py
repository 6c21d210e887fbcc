"""`niso evaluate RUN`: compute the metrics of a trained run again."""

from __future__ import annotations

from dataclasses import dataclass

from niso.cli.metrics import print_metrics
from niso.cli.parsing import RunFolder, parse


@dataclass(frozen=True)
class Options:
    """Evaluate the weights of a trained run again, and write its metrics, figures and report anew."""

    run: RunFolder
    """The run folder."""


def main(arguments: list[str]) -> None:
    """`niso evaluate …`."""
    options = parse(Options, "niso evaluate", arguments)
    from niso.runs.runner import evaluate

    print_metrics(evaluate(options.run), options.run)
