"""`niso report RUN…`: the report of a run, or a comparison of several."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from niso.cli.options import RunFolders, Runs
from niso.errors import InputError
from niso.files.paths import check_place


@dataclass(frozen=True)
class Options(Runs):
    """Write a run's report.html again, or compare several runs, records, or folders of them in one page."""

    examples: ClassVar[dict[str, str]] = {
        "niso report runs/torus-quick-niso-seed0": "its report.html again",
        "niso report results/homnist": "records beside each other, in comparison.html",
    }

    runs: RunFolders
    """Run folders, their records, or folders of either."""
    out: Path | None = None
    """File to write a comparison to; by default comparison.html, or report.html in the folder of several runs."""

    def __call__(self) -> None:
        from niso.training.run import REPORT, Run, is_run, is_sweep, run_folders

        missing = list[str]()
        for folder in filter(is_sweep, self.runs):
            lines = _unstarted(folder)
            if lines and not run_folders(folder):
                raise InputError(lines[0])
            missing += lines
        runs = Run.find(*self.runs)
        if self.out is not None:
            if len(self.runs) == 1 and is_run(self.runs[0]):
                raise InputError(f"--out has no effect, leave it out: the report of one run is {self.runs[0]}/{REPORT}")
            if self.out.name == REPORT and is_run(self.out.parent):
                raise InputError(f"--out {self.out} is the report of a run: choose another file")
            check_place(self.out, "--out", file=True)
            if self.out.suffix.lower() not in (".html", ".htm"):
                raise InputError(f"--out {self.out}: a comparison is a web page, name it *.html")

        from niso.runs.report import report  # torch is slow to import

        print(report(self.runs, self.out))
        for line in [*(run.standing for run in runs if run.standing), *missing]:
            print(line, file=sys.stderr)


def _unstarted(folder: Path) -> list[str]:
    """A line for each run of a folder of several that was never started; none where sweep.yaml is damaged: what runs
    there are is reported all the same."""
    from niso.runs.sweep import unstarted  # torch is slow to import

    try:
        return unstarted(folder)
    except InputError:
        return []
