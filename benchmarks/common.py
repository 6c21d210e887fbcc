"""What the benchmarks share: medians, the description of the machine, tables and JSON files."""

from __future__ import annotations

import os
import platform
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Any

os.environ.setdefault("OMP_WAIT_POLICY", "passive")  # read once, when torch starts its threads

import torch
from rich.console import Console
from rich.table import Table

from niso.training.environment import commit, processor

RESULTS = Path(__file__).parent / "results"


@dataclass(frozen=True)
class Named:
    """Options of every benchmark."""

    name: str | None = None
    """File name of the JSON under benchmarks/results/, by default the benchmark's own."""


@dataclass(frozen=True)
class Options(Named):
    """Options of benchmarks that measure time."""

    device: str = "cuda" if torch.cuda.is_available() else "cpu"
    """cpu or cuda."""
    threads: tuple[int, ...] = tuple(sorted({1, os.cpu_count() or 1}))
    """CPU threads, one table for each."""
    repeats: int = 9
    """Timed repetitions; the median is reported, and the minimum beside it."""
    cpu_time: bool = False
    """Measure this process's CPU seconds, not the wall's: on a busy machine, with one thread."""


@dataclass
class Clock:
    """Seconds of each named part, over many repetitions."""

    device: str
    cpu_time: bool = False
    seconds: dict[str, list[float]] = field(default_factory=dict)

    def now(self) -> float:
        if self.device.startswith("cuda"):
            torch.cuda.synchronize()
        return time.process_time() if self.cpu_time else time.perf_counter()

    def add(self, name: str, seconds: float) -> None:
        self.seconds.setdefault(name, []).append(seconds)

    def medians(self) -> dict[str, float]:
        return {name: median(values) for name, values in self.seconds.items()}


def compare(calls: dict[str, Callable[[], Any]], options: Options) -> dict[str, dict[str, float]]:
    """Median and minimum seconds of each call. They take turns, so that a busy machine slows all alike."""
    seconds = take_turns(calls, options)
    return {name: {"median": median(v), "minimum": min(v)} for name, v in seconds.items()}


def take_turns(calls: dict[str, Callable[[], Any]], options: Options) -> dict[str, list[float]]:
    """Seconds of each call, over the repetitions."""
    clock = Clock(options.device, options.cpu_time)
    for _ in range(2):
        for call in calls.values():
            call()
    for _ in range(options.repeats):
        for name, call in calls.items():
            start = clock.now()
            call()
            clock.add(name, clock.now() - start)
    return clock.seconds


def machine(device: str) -> dict[str, Any]:
    """Hardware, versions and date: what a time means nothing without."""
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "commit": commit("benchmarks"),
        "cpu": processor(),
        "cores": os.cpu_count(),
        "load_average": os.getloadavg()[0] if hasattr(os, "getloadavg") else None,
        "gpu": torch.cuda.get_device_name() if device.startswith("cuda") else None,
        "torch": torch.__version__,
        "python": platform.python_version(),
        "omp_wait_policy": os.environ["OMP_WAIT_POLICY"],
    }


_tables: list[dict[str, Any]] = []


def table(title: str, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Print a table, and keep it for `write`; numbers get three significant digits."""
    cells = [[_text(cell) for cell in row] for row in rows]
    _tables.append({"title": title, "columns": list(columns), "rows": cells})
    output = Table(title=title, title_justify="left")
    for index, column in enumerate(columns):
        output.add_column(column, justify="right" if index else "left")
    for row in cells:
        output.add_row(*row)
    Console(width=None if sys.stdout.isatty() else 120).print(output)


def _text(cell: Any) -> str:
    if not isinstance(cell, float):
        return str(cell)
    return f"{cell:,.0f}" if cell >= 100 else f"{cell:.3g}"


def write(benchmark: str, options: Named, results: dict[str, Any]) -> Path:
    """Write the results, with the machine, the options and the tables, to benchmarks/results/<name>.json."""
    from niso.files.json import write_json  # which needs more than measurements on a bare machine do

    path = RESULTS / f"{options.name or benchmark}.json"
    content = {
        "benchmark": benchmark,
        "machine": machine(getattr(options, "device", "cpu")),
        "options": asdict(options),
        **results,
        "tables": _tables,
    }
    write_json(path, content)
    Console().print(f"written to {path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path}")
    return path
