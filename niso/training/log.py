"""log.csv and TensorBoard events: what training has measured, step by step."""

from __future__ import annotations

import csv
import io
import math
import shutil
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from niso.files.writing import write_atomically

LOG = "log.csv"
EVENTS = "tensorboard"
Tables = dict[str, dict[str, np.ndarray]]
"""Phase → column → numbers."""


class Log:
    """log.csv and TensorBoard events of a run; the rows of all phases are in one table.

    Opening it for a phase at a step drops the rows that an interrupted run had written beyond that step.
    """

    FIXED = ("phase", "step", "learning_rate", "seconds")

    def __init__(self, run: Path, phase: str, start: int) -> None:
        from torch.utils.tensorboard import SummaryWriter  # slow to import

        self.path, self.phase = run / LOG, phase
        rows = [row for row in read_log(self.path) if row["phase"] != phase or int(row["step"]) <= start]
        self.columns = list(rows[0] if rows else self.FIXED)
        _write(self.path, self.columns, rows)
        # a folder for each phase: TensorBoard drops what its events have from `purge_step` on
        self.events = SummaryWriter(str(run / EVENTS / phase), purge_step=start + 1)

    def write(self, step: int, learning_rate: float, seconds: float, means: dict[str, float]) -> None:
        """Append a row, with new columns for terms not seen before."""
        fixed = (self.phase, str(step), f"{learning_rate:.6g}", f"{seconds:.3f}")
        row = dict(zip(self.FIXED, fixed, strict=True)) | {name: f"{value:.6g}" for name, value in means.items()}
        if new := [name for name in row if name not in self.columns]:
            self.columns += new
            _write(self.path, self.columns, [*read_log(self.path), row])
        else:
            with open(self.path, "a", newline="") as file:
                csv.DictWriter(file, self.columns).writerow(row)
        for name, value in {"learning_rate": learning_rate, **means}.items():
            self.events.add_scalar(f"{self.phase}/{name}", value, step)

    def close(self) -> None:
        self.events.close()


def row_interval(steps: int) -> int:
    """Interval between the rows of a log that is to have about 400 of them."""
    return max(1, steps // 400)


def read_log(path: Path) -> list[dict[str, str]]:
    """Rows of log.csv; none where there is no such file. A last line that a kill cut short is left out."""
    return [row for row in _read(path)[1] if _is_row(row)]


def is_damaged(path: Path) -> bool:
    """Whether log.csv holds what no kill leaves there: a line that is no row, or a word for a number."""
    columns, rows = _read(path)
    if "step" not in columns:
        return path.is_file() and path.stat().st_size > 0
    return any(not _is_row(row) or _garbled(row) for row in rows)


def tables(path: Path) -> Tables:
    """The numbers of log.csv, without columns that have none in a phase. A missing number is NaN."""
    phases: dict[str, list[dict[str, str]]] = {}
    for row in read_log(path):
        phases.setdefault(row.pop("phase", "") or "training", []).append(row)
    found = {}
    for phase, rows in phases.items():
        columns = {name: np.array([_number(row[name]) for row in rows]) for name in rows[0]}
        found[phase] = {name: values for name, values in columns.items() if not np.isnan(values).all()}
    return found


def forget(run: Path, kept: Collection[str]) -> None:
    """Remove what log.csv and TensorBoard have of all phases but these."""
    rows = read_log(run / LOG)
    if others := {row["phase"] for row in rows} - set(kept):
        _write(run / LOG, list(rows[0]), [row for row in rows if row["phase"] not in others])
        for phase in others:
            shutil.rmtree(run / EVENTS / phase, ignore_errors=True)


def _read(path: Path) -> tuple[Sequence[str], list[dict[Any, Any]]]:
    """Columns of log.csv, and the cells of each line that ends: None where there are fewer, or as a key of more."""
    lines = path.read_text(encoding="utf-8-sig", errors="replace").splitlines(keepends=True) if path.is_file() else []
    rows = csv.DictReader(line for line in lines if line.endswith("\n"))
    return rows.fieldnames or (), list(rows)


def _is_row(row: Mapping[Any, Any]) -> bool:
    """Whether it has a cell for each column, and a step."""
    return None not in row and None not in row.values() and row.get("step", "").isdecimal()


def _garbled(row: Mapping[str, str]) -> bool:
    """Whether a cell that is to hold a number holds something else."""
    cells = (text for name, text in row.items() if name != "phase")
    return any(math.isnan(_number(text)) for text in cells if text not in ("", "nan"))


def _write(path: Path, columns: Sequence[str], rows: Iterable[Mapping[str, str]]) -> None:
    content = io.StringIO()
    writer = csv.DictWriter(content, columns)
    writer.writeheader()
    writer.writerows(rows)
    write_atomically(path, content.getvalue().encode())


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan
