"""The table of an experiment's methods in characters, for a terminal."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence
from itertools import accumulate

from niso.report.groups import Group
from niso.report.methods import ELSEWHERE, QUOTED, MethodsTable, arranged
from niso.report.numbers import MISSING


def text(shown: MethodsTable, width: int | None = None) -> str:
    """The table in characters; of a single method, a line for each metric.

    With a width it is what fits there: results alone, of those that depend on something the first. Where most of them
    do not fit, metrics are the rows, unless not even two configurations would stand beside each other; where hardly any
    fit, one by one.
    """
    if len(shown.groups) == 1:
        (group,) = shown.groups
        body = [[shown.head(key), _estimate(group, key)] for key in shown.metrics]
        quoted = [f"{key} {value}" for key, value in group.published.items() if key in shown.metrics]
        notes = [QUOTED, ", ".join(quoted)] if quoted else []
        head = f"{group.preset} · {group.method}, seed{'s' * (len(group.seeds) > 1)} {', '.join(map(str, group.seeds))}"
        return "\n".join([head, _aligned(body), *_wrapped(notes, width)])
    keys, notes = list(shown.metrics), list[str]()
    turned = False
    if width is not None:
        tables = arranged(shown.results)
        keys = [key for columns in tables for key in list(columns.keys.values())[: 1 if columns.at else None]]
        fitting = next((n for n in range(len(keys), 1, -1) if _fits(_lines(shown, keys[:n]), width)), 1)
        beside = 1 if 4 * fitting < len(keys) else 2
        turned = 2 * fitting < len(keys) and _fitting(_across(_lines(shown, keys)), width) > beside
        left_out = 0 if turned else len(keys) - fitting
        keys = keys[: len(keys) - left_out]
        notes += [f"{left_out} more column{'s are' if left_out > 1 else ' is'} in the report"] * (left_out > 0)
        others = [f"other values of {at}" for at in dict.fromkeys(columns.at for columns in tables if columns.at)]
        others += ["validation, cost and sizes"] * bool(shown.others)
        notes += [f"In the report, too: {', '.join(others)}"] * bool(others)
        notes = [*filter(None, [shown.same_note]), *notes]
    if shown.quoted(keys):
        notes.insert(0, f"({ELSEWHERE}) {QUOTED}")
    lines = _lines(shown, keys)
    table = "\n\n".join(_turned(lines, width)) if turned and width is not None else _aligned(lines)
    return "\n".join([table, *_wrapped(notes, width)])


def _lines(shown: MethodsTable, keys: Sequence[str]) -> list[list[str]]:
    """Two lines of heads, a row for each configuration, and one for each method that something was published of."""
    lines = [["", "", ""], ["preset", "method", "seeds"]]
    for key in keys:
        first, _, rest = shown.head(key).partition("_")
        lines[0].append(first if rest else "")
        lines[1].append(rest or first)
    for group in shown.groups:
        name = f"{group.method} ({group.settings})" if group.settings else group.method
        lines.append([group.preset, name, str(len(group.runs)), *(_estimate(group, key) for key in keys)])
    for entry in shown.quoted(keys):
        lines.append([f"({ELSEWHERE})", entry.name, MISSING, *(entry.values.get(key, MISSING) for key in keys)])
    return lines


def _turned(lines: Sequence[Sequence[str]], width: int) -> list[str]:
    """Tables of the columns of these lines, as rows: one below the other where they do not fit beside each other, each
    without rows that it has no value for."""
    columns, tables = _across(lines), []
    while len(columns[0]) > 1:
        shown = max(2, _fitting(columns, width))
        cut = [column[:shown] for column in columns]
        tables.append(_aligned([*cut[:3], *(row for row in cut[3:] if set(row[1:]) != {MISSING})]))
        columns = [[column[0], *column[shown:]] for column in columns]
    return tables


def _across(lines: Sequence[Sequence[str]]) -> list[list[str]]:
    """The columns of lines of which the first two are heads, as rows."""
    above, below, *rows = lines
    heads = ("_".join(filter(None, pair)) for pair in zip(above, below, strict=True))
    return [list(column) for column in zip(heads, *rows, strict=True)]


def _wrapped(notes: Iterable[str], width: int | None) -> list[str]:
    """Notes in lines of at most this width."""
    return [line for note in notes for line in (textwrap.wrap(note, width) if width else [note])]


def _estimate(group: Group, metric: str) -> str:
    """Of how many runs it is, where not all have the metric."""
    if metric not in group.estimates:
        return MISSING
    estimate = group.estimates[metric]
    count = f" ({len(estimate.values)} of {len(group.runs)})" if len(estimate.values) < len(group.runs) else ""
    return f"{estimate}{count}"


def _aligned(lines: Sequence[Sequence[str]]) -> str:
    """Lines of columns as wide as their widest cell."""
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    padded = ("  ".join(f"{cell:<{size}}" for cell, size in zip(line, widths, strict=True)) for line in lines)
    return "\n".join(line.rstrip() for line in padded)


def _fitting(lines: Sequence[Sequence[str]], width: int) -> int:
    """How many of such columns fit."""
    ends = accumulate(max(map(len, column)) + 2 for column in zip(*lines, strict=True))
    return sum(end - 2 <= width for end in ends)


def _fits(lines: Sequence[Sequence[str]], width: int) -> bool:
    """Whether all columns fit."""
    return _fitting(lines, width) == len(lines[0])
