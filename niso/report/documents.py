"""Tables of figures in Markdown documents, made from records and never typed in.

A document marks the place of a table by comments; what stands between them is replaced:

    <!-- table: results/torus/*.json | eigenspace_energy map_block_energy -->
    <!-- end of table -->

The pattern is relative to the root of the project. With `| published` before the arrow, published figures stand beside
those measured here, in columns of their own. Run `python -m niso.runs.comparison README.md docs/*.md` there
(`make docs`); a test holds the documents to their records.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from niso.errors import InputError
from niso.report.comparison import Ask, nothing
from niso.report.html import MISSING
from niso.report.measured import Measured, grouped
from niso.report.methods import ELSEWHERE, Line, MethodsTable

_TABLE = re.compile(
    r"(?P<head><!-- table: (?P<pattern>[^|]+?) \| (?P<metrics>[^|]+?)(?P<published> \| published)? -->\n)"
    r".*?(?P<end><!-- end of table -->)",
    re.DOTALL,
)


def fill(text: str, root: Path, known: Ask = nothing) -> str:
    """A document with all of its tables made anew from the records under `root`.

    Raises:
        InputError: a pattern matches no record, or a record lacks a metric.
    """

    def table(match: re.Match[str]) -> str:
        paths = sorted(root.glob(match["pattern"]))
        if not paths:
            raise InputError(f"no record matches {match['pattern']}")
        return (
            match["head"]
            + markdown_table(paths, match["metrics"].split(), known, bool(match["published"]))
            + match["end"]
        )

    return _TABLE.sub(table, text)


def markdown_table(paths: Sequence[Path], metrics: Sequence[str], known: Ask, published: bool) -> str:
    """One line for each preset and method: mean ± standard error over seeds, and every seed's value in order.

    Records of several folders are variants of the preset: the folder's name takes the place of the preset's.
    """
    records = sorted(map(Measured.open, paths), key=lambda record: (record.path.parent, record.seed))
    for metric in metrics:
        if not any(metric in record.metrics for record in records):
            raise InputError(f"every record lacks the metric {metric}")
    about = known(records[0].kind[0])
    shown = MethodsTable.of(grouped(records), about if published else replace(about, published=()), metrics)
    variants = len({path.parent for path in paths}) > 1
    lines = [["variant" if variants else "preset", "method", "seeds"]]
    lines[0] += [f"`{name}`, published" if quoted else f"`{name}`" for name, quoted in shown.columns]
    lines.append(["---"] * len(lines[0]))
    for line in shown.ours:
        cells = (_quote(line, name) if quoted else _cell(line, name) for name, quoted in shown.columns)
        lines.append([f"`{line.preset}`", f"`{line.method}`", ", ".join(map(str, line.seeds)), *cells])
    for line in shown.elsewhere:
        cells = (_quote(line, name) if quoted else MISSING for name, quoted in shown.columns)
        lines.append([f"*{ELSEWHERE}*", f"*{line.method}*", MISSING, *cells])
    note = f"\n{shown.sources}\n" if shown.sources else ""
    return "".join(f"| {' | '.join(line)} |\n" for line in lines) + note


def _quote(line: Line, metric: str) -> str:
    return f"*{line.published[metric]}*" if metric in line.published else MISSING


def _cell(line: Line, metric: str) -> str:
    row = line.figures.get(metric)
    if row is None:
        return MISSING  # a method without this figure, e.g. an autoencoder without maps
    values, error = row["values"], row["standard_error"]
    if len(values) < len(line.seeds):
        raise InputError(f"a record of {row['experiment']} lacks the metric {metric}, which its other seeds have")
    if error is None:
        return f"{values[0]:.4g}"
    return f"**{row['mean']:.4g}** ± {error:.1g} ({', '.join(f'{value:.4g}' for value in values)})"
