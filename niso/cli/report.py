"""`niso report RUN…`: the report of a run, or a comparison of several."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from niso.cli.parsing import Runs


@dataclass(frozen=True)
class Options(Runs):
    """Write a run's report.html again, or compare several runs, records, or folders of them in one page."""

    out: Path | None = None
    """File to write a comparison to; by default comparison.html, or report.html in the folder of several runs."""

    def __call__(self) -> None:
        from niso.runs.report import report

        print(report(self.runs, self.out))
