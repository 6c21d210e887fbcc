"""Prepared shapes in words: a line for each, and a table of the classes."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

import torch

from niso.data.prepared import read_json
from niso.data.shapes.prepared import flat_channels, of_moments, prepared_names, resolved_by_float16
from niso.errors import counted

_POOR = 0.8  # R² of what the grid keeps, below which a finer one is advised
_UNKNOWN = "–"  # of a distortion that is not finite, and of a signature that is constant


def line(folder: Path, name: str) -> str:
    """How good the map of one prepared shape is, and what the grid keeps of its signature."""
    facts = read_json(folder / f"{name}.json")
    parts = [
        f"distortion {_number(facts['distortion'])}",
        f"{_percent(facts['flipped_area'])} of its area flipped",
    ]
    if facts.get("coincident"):
        parts.append(f"{facts['coincident']} vertices on others")
    if facts.get("repair"):
        parts.append(f"repaired ({facts['repair']})")
    if facts.get("repaired_variants"):
        parts.append(f"{counted(facts['repaired_variants'], 'variant')} repaired")
    if facts.get("redrawn"):
        parts.append(f"{counted(facts['redrawn'], 'variant')} drawn again")
    own, *others = facts["grid_r2"]
    variants = [value for value in others if value is not None]
    more = f" (variants {_number(_mean(variants))}, at worst {_number(min(variants))})" if variants else ""
    return f"{name}: {', '.join(parts)}; the grid keeps R² {_number(own)}{more}"


def table(folder: Path) -> list[str]:
    """Lines of a table of the classes, and advice where the grid is too coarse; none where nothing is prepared.

    Distortion and flipped area are means over the shapes' own maps, R² over all maps.
    """
    named = [(name.partition("/")[0], read_json(folder / f"{name}.json")) for name in prepared_names(folder)]
    if not named:
        return []
    groups = [(label, [facts for _, facts in members]) for label, members in groupby(named, lambda pair: pair[0])]
    total = [facts for _, facts in named]
    head = ("class", "shapes", "distortion", "flipped", "repaired", "redrawn", "grid R²", "worst")
    rows = [head, *(_row(label, members) for label, members in groups), _row("all", total)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ["  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])]).rstrip() for row in rows]
    if flat := _flat(total):
        lines.append(f"{flat}; an earlier --last-time keeps more")
    mean = _mean(_kept(total))
    if mean is not None and mean < _POOR:
        lines.append(
            f"the grid loses much of the shapes: R² {mean:.2f} of their signatures, read back at the vertices; "
            "a finer grid (--height, --width) keeps more"
        )
    return lines


def _flat(shapes: Sequence[dict[str, Any]]) -> str:
    means, squares = (torch.tensor([facts[key] for facts in shapes], dtype=torch.float64) for key in ("mean", "square"))
    return flat_channels(resolved_by_float16(*of_moments(means, squares)))


def _row(label: str, members: Sequence[dict[str, Any]]) -> tuple[str, ...]:
    kept = _kept(members)
    return (
        label,
        str(len(members)),
        _number(_mean_of(members, "distortion")),
        _percent(_mean_of(members, "flipped_area")),
        str(sum(bool(facts.get("repair")) for facts in members)),
        str(sum(facts.get("redrawn", 0) for facts in members)),
        _number(_mean(kept)),
        _number(min(kept, default=None)),
    )


def _kept(members: Sequence[dict[str, Any]]) -> list[float]:
    return [value for facts in members for value in facts["grid_r2"] if value is not None]


def _mean_of(members: Sequence[dict[str, Any]], key: str) -> float | None:
    return _mean([facts[key] for facts in members if facts[key] is not None])


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None


def _number(value: float | None) -> str:
    return _UNKNOWN if value is None else f"{value:.2f}"


def _percent(value: float | None) -> str:
    return _UNKNOWN if value is None else f"{value:.2%}"
