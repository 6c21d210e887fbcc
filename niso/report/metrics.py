"""Where metrics stand in a page: results, those that depend on something, and those that are no results."""

from __future__ import annotations

import re
from collections.abc import Iterable

from niso.results import RUN_METRICS

_COST = {metric.key for metric in RUN_METRICS}
_OF_A_PHASE = "seconds_"
"""Begins what a phase has cost, which may be of the user's own."""
_VALIDATION = re.compile(r".+_val(_[a-z]+\d+)?")
_SIZE = re.compile(r"classes|((test|training|held_out)_)?(images|shapes|maps|observations|sequences)(_[a-z]+\d+)?")
_SERIES = 3
"""A metric at so many values of something has a row, or a table, for all of them."""


def beside(key: str) -> bool:
    """Whether a metric is no result: of validation data, what the run has cost, or how large its data is."""
    cost = key in _COST or key.startswith(_OF_A_PHASE)
    return cost or bool(_VALIDATION.fullmatch(key) or _SIZE.fullmatch(key))


def depending(keys: Iterable[str]) -> dict[str, dict[str, dict[int, str]]]:
    """Metrics that depend on something, as "ate_skip0" on the skip: by its name and the rest of theirs the key at each
    value, in ascending order. What is known at few values only is left out."""
    found: dict[str, dict[str, dict[int, str]]] = {}
    for key in keys:
        if parts := re.fullmatch(r"(.+)_([a-z]+)(\d+)", key):
            found.setdefault(parts[2], {}).setdefault(parts[1], {})[int(parts[3])] = key
    kept = {
        at: {stem: dict(sorted(series.items())) for stem, series in stems.items() if len(series) >= _SERIES}
        for at, stems in found.items()
    }
    return {at: stems for at, stems in kept.items() if stems}
