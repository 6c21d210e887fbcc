"""Comparisons of runs, with what their experiments say of the results."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from niso.experiments.known import known
from niso.training.run import Run


def compare(runs: Sequence[Run], out: Path) -> str:
    """Write the comparison of runs to `out`; its tables, and where it is, as text.

    Raises:
        InputError: a file of a run, or a record, is damaged.
    """
    from niso.report import comparison_text, write_comparison  # matplotlib is slow to import

    path = write_comparison(runs, out, known)
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    return "\n\n".join(filter(None, [comparison_text(runs, known, width), f"report: {path}"]))
