"""Tables of Markdown documents, made from records and never typed in.

A document marks the place of a table by comments; what stands between them is replaced. A table of runs names their
records and metrics; `| published` before the arrow adds published values in rows of their own:

    <!-- table: results/torus/*.json | eigenspace_energy map_block_energy -->
    <!-- end of table -->

A table of a benchmark names the benchmark, whose results are in benchmarks/results/, and the table's number:

    <!-- benchmark: polar 0 -->
    <!-- end of benchmark -->

Run: `make docs`, or python -m benchmarks.documents DOCUMENT…; a test holds the documents to the records.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from niso.errors import InputError
from niso.experiments.known import known
from niso.report.groups import Group, grouped
from niso.report.methods import ELSEWHERE, MethodsTable
from niso.report.numbers import MISSING
from niso.results import Known
from niso.runs import Run

ROOT = Path(__file__).parents[1]
RUNS = re.compile(
    r"(?P<head><!-- table: (?P<pattern>[^|]+?) \| (?P<metrics>[^|]+?)(?P<published> \| published)? -->\n)"
    r".*?(?P<end><!-- end of table -->)",
    re.DOTALL,
)
BENCHMARK = re.compile(
    r"(?P<head><!-- benchmark: (?P<name>\w+) (?P<number>\d+) -->\n).*?(?P<end><!-- end of benchmark -->)", re.DOTALL
)


def fill(text: str, root: Path = ROOT, ask: Callable[[str], Known] = known) -> str:
    """A document with all of its tables made anew from the records under `root`.

    Args:
        ask: what is known of an experiment, by its name.

    Raises:
        InputError: a table has no records, or a record lacks a metric.
    """

    def runs(match: re.Match[str]) -> str:
        paths = sorted(root.glob(match["pattern"]))
        if not paths:
            raise InputError(f"no record matches {match['pattern']}")
        table = table_of_runs(paths, match["metrics"].split(), ask, bool(match["published"]))
        return match["head"] + table + match["end"]

    def benchmark(match: re.Match[str]) -> str:
        path = root / "benchmarks" / "results" / f"{match['name']}.json"
        return match["head"] + table_of_benchmark(path, int(match["number"])) + match["end"]

    return BENCHMARK.sub(benchmark, RUNS.sub(runs, text))


def table_of_runs(paths: Sequence[Path], metrics: Sequence[str], ask: Callable[[str], Known], published: bool) -> str:
    """One line for each configuration: mean ± standard error over seeds, and every seed's value in order.

    Records of several folders are variants of the preset: the folder's name takes the place of the preset's.
    """
    records = sorted(map(Run.read, paths), key=lambda run: (run.path.parent, run.seed))
    for metric in metrics:
        if not any(metric in run.metrics for run in records):
            raise InputError(f"every record lacks the metric {metric}")
    about = ask(records[0].kind[0])
    about = about if published else replace(about, published=())
    shown = MethodsTable(grouped(records, about), about, metrics)
    variants = len({path.parent for path in paths}) > 1
    lines = [["variant" if variants else "preset", "method", "seeds"]]
    for key in metrics:
        unit = shown.metric(key).unit
        lines[0].append(f"`{key}` ({unit})" if unit else f"`{key}`")
    lines.append(["---"] * len(lines[0]))
    for group in shown.groups:
        method = f"`{group.method}`, {group.settings}" if group.settings else f"`{group.method}`"
        cells = (_cell(group, key) for key in metrics)
        lines.append([f"`{group.preset}`", method, ", ".join(map(str, group.seeds)), *cells])
    for entry in shown.quoted:
        lines.append([f"*{ELSEWHERE}*", f"*{entry.name}*", MISSING, *(_quote(entry.values, key) for key in metrics)])
    return _markdown(lines) + (f"\n{shown.sources}\n" if shown.sources else "")


def table_of_benchmark(path: Path, number: int) -> str:
    """A table of a benchmark's results, with its title, the processor, the date and the load under it."""
    record = json.loads(path.read_text()) if path.exists() else {}
    if number >= len(record.get("tables", [])):
        raise InputError(f"{path} has no table {number}: run python -m benchmarks.{path.stem}")
    table, machine = record["tables"][number], record["machine"]
    text = _markdown([table["columns"], ["---"] * len(table["columns"]), *table["rows"]])
    clock = ", CPU time of the process" if record["options"].get("cpu_time") else ""
    where = machine["gpu"] or f"{machine['cores']} cores of {machine['cpu']}, load {machine['load_average']:.1f}"
    return f"{text}\n*{table['title']}. {where}{clock}; torch {machine['torch']}, {machine['date'][:10]}.*\n"


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
    values, error = [f"{value:.4g}" for value in estimate.values], estimate.standard_error
    return values[0] if error is None else f"**{estimate.mean:.4g}** ± {error:.1g} ({', '.join(values)})"


if __name__ == "__main__":
    for argument in sys.argv[1:]:
        document = Path(argument)
        document.write_text(fill(document.read_text(encoding="utf-8")), encoding="utf-8")
