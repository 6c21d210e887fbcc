"""Tables of Markdown documents, made from records and never typed in.

A document marks the place of a table by comments; what stands between them is replaced. A table of runs names their
records and metrics; `| published` before the arrow adds published values in rows of their own:

    <!-- table: results/torus/*.json | eigenspace_energy map_block_energy -->
    <!-- end of table -->

A table of a benchmark names the benchmark, whose results are in benchmarks/results/, and the table's number:

    <!-- benchmark: polar 0 -->
    <!-- end of benchmark -->

A table of headlines has a line for each result: what it is, records, a metric of theirs, and the published method that
it is compared with, or —:

    <!-- headlines
    Digits under homographies | results/homnist/homnist-small-niso-seed*.json | accuracy | NIso
    -->
    <!-- end of headlines -->

A table of differences names its metrics, and in each line what it is and two configurations, of which the second is
taken from the first, seed by seed:

    <!-- differences: accuracy_val accuracy
    NIso less NFT | results/shapes/shapes-small-niso-seed*.json | results/shapes/shapes-small-nft-seed*.json
    -->
    <!-- end of differences -->

A table that sets sizes side by side names a metric, and in each line a column and its records. It has a row for each
method, counts of seeds in brackets, and the published values as its last column:

    <!-- side by side: accuracy
    `small` | results/homnist-small/*.json
    -->
    <!-- end of side by side -->

But for headlines, a cell is mean ± standard error over seeds. What each seed gave stands on a page of its own, which
names the documents whose tables it repeats, by names or patterns:

    <!-- seeds: README.md docs/**/*.md -->
    <!-- end of seeds -->

Run: `make docs`, or python -m tools.documents DOCUMENT…; a test holds the documents to the records.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from niso.errors import InputError
from niso.experiments.known import known
from niso.report.groups import Group, difference, grouped
from niso.report.methods import ELSEWHERE, MethodsTable
from niso.report.numbers import MISSING, number
from niso.results import Known
from niso.training.run import Run

ROOT = Path(__file__).parents[1]
HOMES = ("benchmarks", "studies", "tools")
"""Where programs are whose tables are in benchmarks/results."""
RUNS = re.compile(
    r"(?P<head><!-- table: (?P<pattern>[^|]+?) \| (?P<metrics>[^|]+?)(?P<published> \| published)? -->\n)"
    r".*?(?P<end><!-- end of table -->)",
    re.DOTALL,
)
BENCHMARK = re.compile(
    r"(?P<head><!-- benchmark: (?P<name>[\w-]+) (?P<number>\d+) -->\n).*?(?P<end><!-- end of benchmark -->)", re.DOTALL
)
HEADLINES = re.compile(
    r"(?P<head><!-- headlines\n(?P<lines>.*?)\n-->\n).*?(?P<end><!-- end of headlines -->)", re.DOTALL
)
DIFFERENCES = re.compile(
    r"(?P<head><!-- differences: (?P<metrics>[^\n]+)\n(?P<lines>.*?)\n-->\n).*?(?P<end><!-- end of differences -->)",
    re.DOTALL,
)
SIDE_BY_SIDE = re.compile(
    r"(?P<head><!-- side by side: (?P<metric>\w+)\n(?P<lines>.*?)\n-->\n).*?(?P<end><!-- end of side by side -->)",
    re.DOTALL,
)
SEEDS = re.compile(r"(?P<head><!-- seeds: (?P<documents>[^>]+?) -->\n).*?(?P<end><!-- end of seeds -->)", re.DOTALL)
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
ARROWS = {"higher": " ↑", "lower": " ↓", None: ""}
"""After a metric's name: which way is better."""


def fill(text: str, root: Path = ROOT, ask: Callable[[str], Known] = known, folder: str = ".") -> str:
    """A document with all of its tables made anew from the records under `root`.

    Args:
        ask: what is known of an experiment, by its name.
        folder: of the document, from `root`: where its links start.

    Raises:
        InputError: a table has no records, or a record lacks a metric.
    """

    def runs(match: re.Match[str]) -> str:
        paths = _records(root, match["pattern"])
        table = table_of_runs(paths, match["metrics"].split(), ask, bool(match["published"]))
        return match["head"] + table + match["end"]

    def seeds(match: re.Match[str]) -> str:
        found = [path for pattern in match["documents"].split() for path in sorted(root.glob(pattern))]
        parts = (tables_of_seeds(path, root, ask, folder) for path in found)
        return match["head"] + "".join(parts) + match["end"]

    def benchmark(match: re.Match[str]) -> str:
        path = root / "benchmarks" / "results" / f"{match['name']}.json"
        return match["head"] + table_of_benchmark(path, int(match["number"])) + match["end"]

    def entries(match: re.Match[str]) -> list[list[str]]:
        return [[part.strip() for part in line.split("|")] for line in match["lines"].splitlines()]

    def headlines(match: re.Match[str]) -> str:
        return match["head"] + table_of_headlines(entries(match), root, ask) + match["end"]

    def differences(match: re.Match[str]) -> str:
        table = table_of_differences(entries(match), match["metrics"].split(), root, ask)
        return match["head"] + table + match["end"]

    def side_by_side(match: re.Match[str]) -> str:
        return match["head"] + table_side_by_side(entries(match), match["metric"], root, ask) + match["end"]

    for form, filled in (
        (HEADLINES, headlines),
        (SIDE_BY_SIDE, side_by_side),
        (DIFFERENCES, differences),
        (RUNS, runs),
        (BENCHMARK, benchmark),
        (SEEDS, seeds),
    ):
        text = form.sub(filled, text)
    return text


def table_of_runs(paths: Sequence[Path], metrics: Sequence[str], ask: Callable[[str], Known], published: bool) -> str:
    """One line for each configuration: mean ± standard error over seeds, and how many there are.

    Records of several folders are variants of the preset: the folder's name takes the place of the preset's.
    """
    shown = _methods(paths, metrics, ask, published)
    lines = [*_head(paths, shown, "seeds")]
    for group in shown.groups:
        cells = (_cell(group, key) for key in metrics)
        lines.append([*_names(group), str(len(group.seeds)), *cells])
    for entry in shown.quoted(shown.metrics):
        lines.append([f"*{ELSEWHERE}*", f"*{entry.name}*", MISSING, *(_quote(entry.values, key) for key in metrics)])
    return _markdown(lines) + (f"\n{shown.sources}\n" if shown.sources else "")


def table_of_headlines(entries: Sequence[Sequence[str]], root: Path, ask: Callable[[str], Known]) -> str:
    """One number a cell: ours, the mean over seeds, and the published one, where any line has one.

    Args:
        entries: title, pattern of records, metric and published method of each line.
    """
    lines = [["", "metric", "ours", "seeds", "the paper's"], ["---"] * 5]
    for title, pattern, metric, name in entries:
        shown = _methods(_records(root, pattern), [metric], ask, published=True)
        group = _only(shown, pattern)
        values = next((entry.values for entry in shown.known.published if entry.name == name), {})
        _cell(group, metric)  # every seed has it
        about, ours = shown.metric(metric), number(group.estimates[metric].mean)
        published = values[metric].partition(" ")[0] if metric in values else MISSING
        lines.append([title, f"`{metric}`{ARROWS[about.better]}", ours, str(len(group.seeds)), published])
    columns = 5 if any(line[4] != MISSING for line in lines[2:]) else 4
    return _markdown([line[:columns] for line in lines])


def table_of_differences(
    entries: Sequence[Sequence[str]], metrics: Sequence[str], root: Path, ask: Callable[[str], Known]
) -> str:
    """Mean ± standard error of the differences between runs of the same seed.

    Args:
        entries: title, pattern of records, and pattern of the records that they are compared with, of each line.
    """
    lines = list[list[str]]()
    for title, *patterns in entries:
        if len(patterns) != 2:
            raise InputError(f"{title} must name two patterns of records, not {len(patterns)}")
        tables = [_methods(_records(root, pattern), metrics, ask, published=False) for pattern in patterns]
        first, second = (_only(table, pattern) for table, pattern in zip(tables, patterns, strict=True))
        if not lines:
            names = [_column(tables[0], key) for key in metrics]
            lines += [["", "seeds", *names], ["---"] * (2 + len(names))]
        found = {key: difference(first, second, key) for key in metrics}
        counts = {len(estimate.seeds) if estimate else 0 for estimate in found.values()}
        if len(counts) > 1 or counts == {0}:
            raise InputError(f"{patterns[0]} and {patterns[1]} have no two seeds in common that have all metrics")
        lines.append([title, str(*counts), *map(str, found.values())])
    return _markdown(lines)


def table_side_by_side(entries: Sequence[Sequence[str]], metric: str, root: Path, ask: Callable[[str], Known]) -> str:
    """A metric of each method, a row, in each of several sets of records, a column; published values come last.

    Args:
        entries: title and pattern of records of each column.
    """
    columns, cells = list[str](), dict[str, dict[str, str]]()
    for title, pattern in entries:
        table = _methods(_records(root, pattern), [metric], ask, published=True)
        columns.append(title)
        for group in table.groups:
            of_method = cells.setdefault(group.method, {})
            if title in of_method:
                raise InputError(f"{pattern} holds several configurations of {group.method}, not one")
            of_method[title] = f"{_cell(group, metric)} ({len(group.seeds)})"
    known, last = table.known, "the paper's"
    for method, of_method in cells.items():
        if metric in (values := known.published_of(method)):
            of_method[last] = f"*{values[metric]}*"
    lines = [["method", *columns, last], ["---"] * (len(columns) + 2)]
    for method in sorted(cells, key=lambda method: known.place("", method)):
        lines.append([f"`{method}`", *(cells[method].get(column, MISSING) for column in (*columns, last))])
    return _markdown(lines)


def _only(table: MethodsTable, pattern: str) -> Group:
    if len(table.groups) != 1:
        raise InputError(f"{pattern} holds {len(table.groups)} configurations, not one")
    return table.groups[0]


def tables_of_seeds(document: Path, root: Path, ask: Callable[[str], Known], folder: str) -> str:
    """What each seed gave, for the tables of a document that have several seeds in a line: a table and its heading.

    Args:
        folder: where links to the document start, from `root`.
    """
    text = document.read_text(encoding="utf-8")
    name = document.relative_to(root).as_posix()
    parts, shown_heading = [], ""
    for match in RUNS.finditer(text):
        paths, metrics = _records(root, match["pattern"]), match["metrics"].split()
        shown = _methods(paths, metrics, ask, published=False)
        groups = [group for group in shown.groups if len(group.seeds) > 1]
        rows = [
            [*_names(group), str(run.seed), *(number(run.metrics.get(key)) for key in metrics)]
            for group in groups
            for run in group.runs
        ]
        if rows:
            heading = [found[1] for found in HEADING.finditer(text, 0, match.start())][-1]
            title = "" if heading == shown_heading else f"## {heading}\n\n"
            title += f"Of [{name}]({os.path.relpath(name, folder)}), `{match['pattern']}`.\n\n"
            shown_heading = heading
            parts.append(title + _markdown([*_head(paths, shown, "seed"), *rows]) + "\n")
    return "".join(parts)


def table_of_benchmark(path: Path, number: int) -> str:
    """A table of a benchmark's results, with its title, the processor, the date and the load under it."""
    record = json.loads(path.read_text()) if path.exists() else {}
    if number >= len(record.get("tables", [])):
        home = next((home for home in HOMES if (ROOT / home / f"{path.stem}.py").exists()), HOMES[0])
        raise InputError(f"{path} has no table {number}: run python -m {home}.{path.stem}")
    table, machine = record["tables"][number], record["machine"]
    text = _markdown([table["columns"], ["---"] * len(table["columns"]), *table["rows"]])
    clock = ", CPU time of the process" if record["options"].get("cpu_time") else ""
    where = machine["gpu"] or f"{machine['cores']} cores of {machine['cpu']}, load {machine['load_average']:.1f}"
    return f"{text}\n*{table['title']}. {where}{clock}; torch {machine['torch']}, {machine['date'][:10]}.*\n"


def _records(root: Path, pattern: str) -> list[Path]:
    paths = sorted(root.glob(pattern))
    if not paths:
        raise InputError(f"no record matches {pattern}")
    return paths


def _methods(
    paths: Sequence[Path], metrics: Sequence[str], ask: Callable[[str], Known], published: bool
) -> MethodsTable:
    records = sorted(map(Run.read, paths), key=lambda run: (run.path.parent, run.seed))
    for metric in metrics:
        if not any(metric in run.metrics for run in records):
            raise InputError(f"every record lacks the metric {metric}")
    experiments = {run.kind[0] for run in records}
    if len(experiments) > 1:
        raise InputError(f"records of several experiments in one table: {', '.join(sorted(experiments))}")
    about = ask(records[0].kind[0])
    about = about if published else replace(about, published=())
    return MethodsTable(grouped(records, about), about, metrics)


def _head(paths: Sequence[Path], shown: MethodsTable, seeds: str) -> tuple[list[str], list[str]]:
    """Names of the columns, with units and arrows towards what is better, and the line under them."""
    names = ["variant" if len({path.parent for path in paths}) > 1 else "preset", "method", seeds]
    names += [_column(shown, key) for key in shown.metrics]
    return names, ["---"] * len(names)


def _column(shown: MethodsTable, key: str) -> str:
    metric = shown.metric(key)
    return f"`{key}`{ARROWS[metric.better]}{f' ({metric.unit})' if metric.unit else ''}"


def _names(group: Group) -> tuple[str, str]:
    return f"`{group.preset}`", f"`{group.method}`, {group.settings}" if group.settings else f"`{group.method}`"


def _markdown(lines: Sequence[Sequence[str]]) -> str:
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _quote(values: Mapping[str, str], metric: str) -> str:
    return f"*{values[metric]}*" if metric in values else MISSING


def _cell(group: Group, metric: str) -> str:
    estimate = group.estimates.get(metric)
    if estimate is None:
        return MISSING  # a method without this metric, e.g. an autoencoder without maps
    if len(estimate.values) < len(group.runs):
        raise InputError(f"a record of {group.method} lacks the metric {metric}, which its other seeds have")
    return str(estimate)


if __name__ == "__main__":
    for argument in sys.argv[1:]:
        document = Path(argument).resolve()
        made = fill(document.read_text(encoding="utf-8"), folder=os.path.relpath(document.parent, ROOT))
        document.write_text(made, encoding="utf-8")
