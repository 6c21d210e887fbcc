"""Reports with what experiments say of their results: the page of one run, the comparison of several."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from niso.experiments.known import known
from niso.training.run import REPORT, Run, is_run, is_sweep


def report(paths: Sequence[Path], out: Path | None = None) -> str:
    """Write the report of the one run folder given, or the comparison of all runs that the paths name.

    Args:
        paths: run folders, records, or folders of them.
        out: file of the comparison; by default the `report.html` of one folder of several runs, or `comparison.html`.

    Returns:
        Where the report is, and of a comparison also its tables.

    Raises:
        InputError: a path names no run, or a file of a run, or a record, is damaged.
    """
    from niso.report import write_report  # matplotlib is slow to import

    runs = Run.find(*paths)
    if len(paths) == 1 and is_run(paths[0]):
        return str(write_report(runs[0], known(runs[0].kind[0])))
    inside = len(paths) == 1 and is_sweep(paths[0])
    return compare(runs, out or (paths[0] / REPORT if inside else Path("comparison.html")))


def compare(runs: Sequence[Run], out: Path) -> str:
    """Write the comparison of runs to `out`; its tables, and where it is, as text.

    Raises:
        InputError: a file of a run, or a record, is damaged.
    """
    from niso.report import comparison_text, sections, write_comparison  # matplotlib is slow to import

    compared = sections(runs, known)
    path = write_comparison(compared, out)
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    return "\n\n".join(filter(None, [comparison_text(compared, width), f"report: {path}"]))
