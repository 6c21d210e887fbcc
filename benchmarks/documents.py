"""Fills the tables of documents from benchmarks/results/.

Between `<!-- benchmark: NAME 0 -->` and `<!-- end of benchmark -->` comes the first table of that benchmark.

Run: python -m benchmarks.documents docs/*.md   (part of `make docs`)
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

RESULTS = Path(__file__).parent / "results"
MARKED = re.compile(r"(<!-- benchmark: (\w+) (\d+) -->\n).*?(<!-- end of benchmark -->)", re.DOTALL)


def markdown(name: str, number: int) -> str:
    """A table of a benchmark's results, with its title, the processor, the date and the load under it.

    Raises:
        SystemExit: there is no such table; the message says which.
    """
    path = RESULTS / f"{name}.json"
    record = json.loads(path.read_text()) if path.exists() else {}
    if number >= len(record.get("tables", [])):
        raise SystemExit(f"{path} has no table {number}: run python -m benchmarks.{name}")
    table, machine = record["tables"][number], record["machine"]
    lines = [table["columns"], ["---"] * len(table["columns"]), *table["rows"]]
    text = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    clock = ", CPU time of the process" if record["options"].get("cpu_time") else ""
    where = machine["gpu"] or f"{machine['cores']} cores of {machine['cpu']}, load {machine['load_average']:.1f}"
    return f"{text}\n\n*{table['title']}. {where}{clock}; torch {machine['torch']}, {machine['date'][:10]}.*\n"


def fill(text: str) -> str:
    """A document with its benchmark tables filled anew."""
    return MARKED.sub(lambda found: found[1] + markdown(found[2], int(found[3])) + found[4], text)


if __name__ == "__main__":
    for argument in sys.argv[1:]:
        document = Path(argument)
        document.write_text(fill(document.read_text(encoding="utf-8")), encoding="utf-8")
