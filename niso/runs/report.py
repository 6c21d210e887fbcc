"""`niso report`: the page of one run, or the comparison of several."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from niso.experiments.known import known
from niso.runs.comparison import compare
from niso.runs.sweep import is_sweep
from niso.training.run import Run


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

    runs = list({run.path.resolve(): run for path in paths for run in Run.find(path)}.values())
    if len(paths) == 1 and runs[0].path == paths[0] and runs[0].record is None:
        return str(write_report(runs[0], known(runs[0].kind[0])))
    inside = len(paths) == 1 and is_sweep(paths[0])
    return compare(runs, out or (paths[0] / "report.html" if inside else Path("comparison.html")))
