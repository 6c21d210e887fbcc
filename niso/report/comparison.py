"""Several runs beside each other: mean ± standard error over seeds, every seed's figures, and the worst."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import yaml

from niso.checkpoint import write_atomically
from niso.report.html import MISSING, Markup, bound, document, element, join, number, table, with_error
from niso.report.run import Run

_LOWER_IS_BETTER = {"error", "loss", "seconds", "ate"}
_HIGHER_IS_BETTER = {"accuracy", "energy", "correlation"}
_NOT_JUDGED = {"chance"}

Kind = tuple[str, str, str]
"""Experiment, preset and method: runs that differ in none of them are seeds of one experiment."""


def comparison_table(runs: Sequence[Path]) -> list[dict[str, Any]]:
    """One row for each experiment, preset, method and figure of the finished runs, in order of appearance.

    Returns:
        Rows with the keys "experiment", "preset", "method", "metric", "description", "mean", "standard_error"
        (of the mean, from the sample's standard deviation; None for one run), "seeds" and "values" (one a
        run), "worst" and "worst_seed" (None where neither a target nor the name tells which way is better).

    Raises:
        ValueError: there is no run.
        FileNotFoundError: a folder is not that of a run.
        InputError: a JSON file of a run is damaged.
    """
    return [row for kind, group in _grouped(runs).items() for row in _rows(kind, [r for r in group if r.finished])]


def write_comparison(runs: Sequence[Path], out: Path) -> Path:
    """Write the comparison of several runs as one self-contained web page.

    Runs that are not finished are named and left out of the means. Settings other than the seed in which
    the runs of one mean differ are named too.

    Returns:
        `out`.

    Raises:
        As for `comparison_table`.
    """
    groups = _grouped(runs)
    experiments = dict.fromkeys(experiment for experiment, _, _ in groups)
    count = sum(map(len, groups.values()))
    page = document(
        "Comparison — Neural Isometries",
        element(
            "header",
            element("p", "Neural Isometries", class_="kicker"),
            element("h1", f"Comparison of {count} run{'s' if count > 1 else ''}"),
            element("p", "Mean ± standard error of the mean over seeds, then every seed.", class_="summary"),
        ),
        *(_experiment(name, {k: group for k, group in groups.items() if k[0] == name}) for name in experiments),
    )
    write_atomically(out, page.encode())
    return out


def _grouped(runs: Sequence[Path]) -> dict[Kind, list[Run]]:
    if not runs:
        raise ValueError("there are no runs to compare: name at least one run folder")
    groups: dict[Kind, list[Run]] = {}
    for path in runs:
        run = Run.open(path)
        groups.setdefault(run.kind, []).append(run)
    return groups


def _rows(kind: Kind, runs: Sequence[Run]) -> Iterator[dict[str, Any]]:
    for key in dict.fromkeys(key for run in runs for key in [*run.texts("metric_descriptions"), *run.metrics]):
        having = [run for run in runs if key in run.metrics]
        if not having:
            continue
        values = [run.metrics[key] for run in having]
        seeds = [run.facts.get("seed") for run in having]
        worst = _worst(values, _direction(key, having[0].texts("targets").get(key)))
        yield {
            **dict(zip(("experiment", "preset", "method"), kind, strict=True)),
            "metric": key,
            "description": having[0].texts("metric_descriptions").get(key, ""),
            "mean": _mean(values),
            "standard_error": _standard_error(values),
            "seeds": seeds,
            "values": values,
            "worst": None if worst is None else values[worst],
            "worst_seed": None if worst is None else seeds[worst],
        }


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values) if all(map(math.isfinite, values)) else math.nan


def _standard_error(values: Sequence[float]) -> float | None:
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


def _experiment(name: str, groups: dict[Kind, list[Run]]) -> Markup:
    """A table of figures by preset and method, and below it each seed's."""
    finished = {kind: [run for run in group if run.finished] for kind, group in groups.items()}
    tables = {kind: {row["metric"]: row for row in _rows(kind, group)} for kind, group in finished.items() if group}
    keys = dict.fromkeys(key for rows in tables.values() for key in rows)
    heads = ["figure", *(f"{preset} · {method}" for _, preset, method in tables), "what it is"]
    lines = [
        [
            element("code", key),
            *(_cell(rows.get(key)) for rows in tables.values()),
            element("span", _description(key, tables), class_="words"),
        ]
        for key in keys
    ]
    parts = [table(heads, lines, numbers=range(1, len(heads) - 1))] if tables else []
    unfinished = [run.path.name for group in groups.values() for run in group if not run.finished]
    if unfinished:
        words = f"Left out, because not finished (no metrics.json): {', '.join(unfinished)}."
        parts.append(element("p", words, class_="warning"))
    parts += [_seeds(kind, finished[kind], rows) for kind, rows in tables.items()]
    return element("section", element("h2", name), *parts)


def _description(key: str, tables: dict[Kind, dict[str, dict[str, Any]]]) -> str:
    return next((row["description"] for rows in tables.values() if (row := rows.get(key))), "")


def _cell(row: dict[str, Any] | None) -> Markup:
    if row is None:
        return Markup(MISSING)
    error, count = row["standard_error"], len(row["values"])
    text = number(row["mean"]) if error is None else with_error(row["mean"], error)
    below = [f"{count} run{'s' if count > 1 else ''}"]
    if row["worst"] is not None and count > 1:
        below.append(f"worst {number(row['worst'])} (seed {row['worst_seed']})")
    return join([element("b", text), Markup("<br>"), element("small", ", ".join(below))])


def _seeds(kind: Kind, runs: Sequence[Run], rows: dict[str, dict[str, Any]]) -> Markup:
    heads = ["figure", *(f"seed {run.facts.get('seed', '?')}" for run in runs)]
    lines = [[element("code", key), *(number(run.metrics.get(key)) for run in runs)] for key in rows]
    folders = ["folder", *(run.path.resolve().name for run in runs)]
    differing = _differing(runs)
    words = f"These runs differ in more than the seed: {', '.join(differing)}."
    return join(
        [
            element("h3", f"{' · '.join(kind)}: each seed"),
            element("p", words, class_="warning") if differing else "",
            table(heads, [*lines, folders], numbers=range(1, len(heads))),
        ]
    )


def _differing(runs: Sequence[Run]) -> list[str]:
    """Settings, besides the seed and the hardware, in which the runs are not alike."""
    settings = [dict(_flat(yaml.safe_load(run.config))) for run in runs]
    names = dict.fromkeys(name for values in settings for name in values)
    own = ("seed", "hardware")
    return [n for n in names if n.split(".")[0] not in own and any(s.get(n) != settings[0].get(n) for s in settings)]


def _flat(value: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        for key, part in value.items():
            yield from _flat(part, f"{prefix}.{key}" if prefix else str(key))
    else:
        yield prefix, value
