"""Numbers as text."""

from __future__ import annotations

import math
import re
from typing import Any

MISSING = "—"
LISTED = 8
"""Entries of a list that are shown at most."""


def number(value: object) -> str:
    """A number as it is read best: whole numbers in full, others to four digits; other values as they are."""
    if not isinstance(value, int | float) or isinstance(value, bool):
        return MISSING if value is None else str(value)
    if math.isfinite(value) and value == int(value) and abs(value) < 1e15:
        return f"{int(value):,}" if value else "0"
    return f"{value:#.4g}".rstrip(".")


def with_error(mean: float, error: float) -> str:
    """A mean and its standard error, both to the error's second digit: "0.647 ± 0.016"; no error of 0."""
    if error <= 1e-12 * abs(mean):  # what is left by rounding
        return number(mean)
    if not (math.isfinite(mean) and math.isfinite(error)):
        return f"{number(mean)} ± {number(error)}"
    decimals = max(0, 1 - int(f"{error:.1e}".partition("e")[2]))  # of the rounded one: 0.0996 is 0.10
    return f"{mean:z,.{decimals}f} ± {error:,.{decimals}f}"


def verdict(value: int | float | None, target: str) -> str:
    """Whether a value meets a target such as "≥ 0.95", "<= 0.01" or "≥ 95 %"; empty where the target is no bound."""
    match = re.fullmatch(r"\s*(≥|>=|≤|<=)\s*(\d+(?:\.\d*)?(?:[eE][+-]?\d+)?)\s*(%?)\s*", target)
    if match is None or value is None:
        return ""
    bound = float(match[2]) / (100 if match[3] else 1)
    return "met" if (value >= bound if match[1] in ("≥", ">=") else value <= bound) else "missed"


def duration(seconds: float) -> str:
    """Seconds in words: "45.2 s", "3 min 20 s", "6 h 12 min"."""
    if not math.isfinite(seconds):
        return number(seconds)
    if seconds < 60:
        return f"{seconds:.3g} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes < 60 else f"{minutes // 60:,} h {minutes % 60} min"


def fact(value: Any) -> str:
    """A fact of a run as text: "threads 2; precision 32-true"; of a long list its beginning, and how many there are."""
    if isinstance(value, dict):
        return "; ".join(f"{str(key).replace('_', ' ')} {_part(part)}" for key, part in value.items()) or MISSING
    if isinstance(value, list):
        shown = ", ".join(map(_part, value[:LISTED])) or MISSING
        return f"{shown}, … ({len(value):,} in all)" if len(value) > LISTED else shown
    return {True: "yes", False: "no"}[value] if isinstance(value, bool) else number(value)


def _part(value: Any) -> str:
    """A fact within another."""
    return f"({fact(value)})" if isinstance(value, dict | list) else fact(value)
