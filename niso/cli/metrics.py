"""The last lines of a run: its metrics, and where its report is."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from niso.training.run import REPORT, Run


def print_metrics(metrics: Mapping[str, float], run: Path) -> None:
    """Print the metrics, what is said of them, and the path of the report.

    Nothing in processes other than the first, which have none.
    """
    if not metrics:
        return
    width = max(map(len, metrics))
    for name, value in metrics.items():
        print(f"{name:<{width}}  {value if isinstance(value, int) else format(value, '.4g')}")
    if notes := Run.open(run).facts.get("notes"):
        print("", *notes, sep="\n")
    print(f"\nreport: {run / REPORT}")
