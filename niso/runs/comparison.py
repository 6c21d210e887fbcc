"""Comparisons and tables of documents, with what experiments say of their figures: what they are, what is published.

`python -m niso.runs.comparison README.md docs/*.md` fills the tables of documents (`make docs`).
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from niso.experiments import EXPERIMENTS, find_experiment
from niso.results import Known


def known(experiment: str) -> Known:
    """What an experiment says of its figures; nothing where there is no such experiment (any more)."""
    if experiment not in EXPERIMENTS:
        return Known()
    kind = find_experiment(experiment)
    return Known(tuple(kind.presets), tuple(kind.methods), kind.metric_descriptions, kind.published)


def compare(runs: Sequence[Path], out: Path) -> str:
    """Write the comparison of run folders and records to `out`; its tables, and where it is, as text.

    Raises:
        InputError: a file of a run, or a record, is damaged.
    """
    from niso.report import comparison_text, write_comparison  # matplotlib is slow to import

    path = write_comparison(runs, out, known)
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    return "\n\n".join(filter(None, [comparison_text(runs, known, width), f"report: {path}"]))


def fill_documents(paths: Sequence[str]) -> None:
    """Fill the tables of the given documents in place, from the records below the current folder."""
    from niso.report.documents import fill

    for name in paths:
        path = Path(name)
        path.write_text(fill(path.read_text(encoding="utf-8"), Path.cwd(), known), encoding="utf-8")


if __name__ == "__main__":
    fill_documents(sys.argv[1:])
