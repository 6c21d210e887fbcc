"""Mean ± standard error over seeds, and the worst seed."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Sequence
from typing import Any

from niso.report.html import bound
from niso.report.measured import Kind, Measured

_LOWER_IS_BETTER = {"error", "loss", "seconds", "ate"}
_HIGHER_IS_BETTER = {"accuracy", "energy", "correlation"}
_NOT_JUDGED = {"chance"}


def rows(kind: Kind, runs: Sequence[Measured]) -> Iterator[dict[str, Any]]:
    """One row a figure, see `niso.report.comparison_table`."""
    for key in dict.fromkeys(key for run in runs for key in [*run.descriptions, *run.metrics]):
        having = [run for run in runs if key in run.metrics]
        if not having:
            continue
        values = [run.metrics[key] for run in having]
        seeds = [run.seed for run in having]
        worst = _worst(values, _direction(key, having[0].targets.get(key)))
        yield {
            **dict(zip(("experiment", "preset", "method"), kind, strict=True)),
            "metric": key,
            "description": having[0].descriptions.get(key, ""),
            "mean": mean(values),
            "standard_error": standard_error(values),
            "seeds": seeds,
            "values": values,
            "worst": None if worst is None else values[worst],
            "worst_seed": None if worst is None else seeds[worst],
        }


def mean(values: Sequence[float]) -> float:
    """NaN where a value is not finite."""
    return math.fsum(values) / len(values) if all(map(math.isfinite, values)) else math.nan


def standard_error(values: Sequence[float]) -> float | None:
    """Of the mean, from the sample's standard deviation; None for a single value, NaN where one is not finite."""
    if len(values) < 2:
        return None
    finite = all(map(math.isfinite, values))
    return statistics.stdev(values) / math.sqrt(len(values)) if finite else math.nan


def _direction(key: str, target: object) -> int:
    """+1 where more is better, −1 where less is, 0 where nobody said: by the target, else by the key."""
    limit = bound(target)
    if limit is not None:
        return 1 if limit.least else -1
    words = set(key.split("_"))
    if words & _NOT_JUDGED:
        return 0
    return -1 if words & _LOWER_IS_BETTER else int(bool(words & _HIGHER_IS_BETTER))


def _worst(values: Sequence[float], direction: int) -> int | None:
    """Index of the worst value; one that is not finite is worse than any other."""
    if direction == 0:
        return None
    return min(range(len(values)), key=lambda i: direction * values[i] if math.isfinite(values[i]) else -math.inf)
