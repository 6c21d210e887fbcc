"""The last lines of a run: its metrics, and where its report is."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

<<<<<<< HEAD
from niso.runs import Run


def print_metrics(metrics: Mapping[str, float], run: Path) -> None:
    """Print the metrics, what is said of them, and where the report is; nothing in processes other than the first."""
=======
from rich.console import Console

from niso.results import alarms
from niso.training.run import Run


def print_metrics(metrics: Mapping[str, float], run: Path) -> None:
    """Print the metrics, in red what is wrong with them, and the path of the report.

    Nothing in processes other than the first, which have none.
    """
>>>>>>> main
    if not metrics:
        return
    width = max(map(len, metrics))
    for name, value in metrics.items():
        print(f"{name:<{width}}  {value if isinstance(value, int) else format(value, '.4g')}")
<<<<<<< HEAD
    if notes := Run(run).facts.get("notes"):
        print("", *notes, sep="\n")
=======
    for line in alarms(Run.open(run).described.values(), metrics):
        Console(soft_wrap=True, highlight=False).print(f"\n{line}", style="bold red")
>>>>>>> main
    print(f"\nreport: {run / 'report.html'}")
