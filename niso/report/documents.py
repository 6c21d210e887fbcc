"""Tables of figures in Markdown documents, made from records and never typed in.

A document marks the place of a table by comments; what stands between them is replaced:

    <!-- table: results/torus-quick-*.json | eigenspace_energy map_block_energy -->
    <!-- end of table -->

The pattern is relative to the root of the project. Run `python -m niso.report.documents README.md docs/*.md` there
(`make docs`); a test holds the documents to their records.
"""

from __future__ import annotations

import math
import re
import statistics
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from niso.errors import InputError
from niso.report.record import read_record

_TABLE = re.compile(
    r"(<!-- table: (?P<pattern>[^|]+?) \| (?P<metrics>[^|]+?) -->\n).*?(<!-- end of table -->)", re.DOTALL
)


def fill(text: str, root: Path) -> str:
    """A document with all of its tables made anew from the records under `root`.

    Raises:
        InputError: a pattern matches no record, or a record lacks a metric.
    """

    def table(match: re.Match[str]) -> str:
        paths = sorted(root.glob(match["pattern"]))
        if not paths:
            raise InputError(f"no record matches {match['pattern']}")
        return (
            match[1]
            + markdown_table([(path, read_record(path)) for path in paths], match["metrics"].split())
            + match[4]
        )

    return _TABLE.sub(table, text)


def markdown_table(records: Sequence[tuple[Path, dict[str, Any]]], metrics: Sequence[str]) -> str:
    """One line for each preset and method: mean ± standard error over seeds, and every seed's value in order.

    Records of several folders are variants of the preset: the folder's name takes the place of the preset's.
    """
    variants = len({path.parent for path, _ in records}) > 1
    groups: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for path, record in sorted(records, key=lambda item: (item[0].parent, item[1]["seed"])):
        name = path.parent.name if variants else record["preset"]
        groups.setdefault((name, record["method"]), []).append(record)
    for metric in metrics:
        if not any(metric in record["metrics"] for _, record in records):
            raise InputError(f"every record lacks the metric {metric}")
    lines = [["variant" if variants else "preset", "method", "seeds", *(f"`{name}`" for name in metrics)]]
    lines.append(["---"] * len(lines[0]))
    for (label, method), group in groups.items():
        seeds = ", ".join(str(record["seed"]) for record in group)
        lines.append([f"`{label}`", f"`{method}`", seeds, *(_cell(group, name) for name in metrics)])
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _cell(group: Sequence[dict[str, Any]], metric: str) -> str:
    having = [record["metrics"][metric] for record in group if metric in record["metrics"]]
    if not having:
        return "—"  # a method without this figure, e.g. an autoencoder without maps
    if len(having) < len(group):
        raise InputError(f"a record of {group[0]['experiment']} lacks the metric {metric}, which its other seeds have")
    values = [float(value) for value in having]
    if len(values) == 1:
        return f"{values[0]:.4g}"
    spread = statistics.stdev(values) / math.sqrt(len(values))
    return f"**{statistics.fmean(values):.4g}** ± {spread:.1g} ({', '.join(f'{value:.4g}' for value in values)})"


def main(paths: Sequence[str]) -> None:
    """Fill the tables of the given documents in place, from the records below the current folder."""
    for name in paths:
        path = Path(name)
        path.write_text(fill(path.read_text(encoding="utf-8"), Path.cwd()), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
