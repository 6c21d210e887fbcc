"""`niso report RUN…`: the report of a run, or a comparison of several."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from niso.cli.parsing import Runs
from niso.errors import InputError
from niso.files import check_place


@dataclass(frozen=True)
class Options(Runs):
    """Write a run's report.html again, or compare several runs, records, or folders of them in one page."""

    examples: ClassVar[dict[str, str]] = {
        "niso report runs/torus-quick-niso-seed0": "its report.html again",
        "niso report results/homnist": "records beside each other, in comparison.html",
    }

    out: Path | None = None
    """File to write a comparison to; by default comparison.html, or report.html in the folder of several runs."""

    def __call__(self) -> None:
        from niso.training.run import Run, is_sweep

        missing = _unstarted([path for path in self.runs if is_sweep(path)])
        if missing and not any(file for path in self.runs for file in path.glob("*/config.yaml")):
            raise InputError(missing[0])
        runs = [run for path in self.runs for run in Run.find(path)]
        if self.out is not None:
            if len(self.runs) == 1 and runs[0].path == self.runs[0] and runs[0].record is None:
                raise InputError(
                    f"--out has no effect, leave it out: the report of one run is {runs[0].path}/report.html"
                )
            check_place(self.out, "--out", file=True)
            if self.out.suffix.lower() not in (".html", ".htm"):
                raise InputError(f"--out {self.out}: a comparison is a web page, name it *.html")

        from niso.runs.report import report  # torch is slow to import

        print(report(self.runs, self.out))
        for line in [*(run.standing for run in runs if run.standing), *missing]:
            print(line, file=sys.stderr)


def _unstarted(folders: Sequence[Path]) -> list[str]:
    """A line for each run of these folders of several runs that was never started."""
    if not folders:
        return []
    from niso.runs.sweep import unstarted  # torch is slow to import

    lines = []
    for folder in folders:
        with suppress(InputError):  # what runs there are is reported, also where sweep.yaml is damaged
            lines += unstarted(folder)
    return lines
