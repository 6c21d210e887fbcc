"""Where the seconds from `niso run` to `metrics.json` went, in finished runs and in records.

Run: python -m benchmarks.result RUN…, each a run's folder, a record's file, or a folder of either
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro
from tyro.conf import Positional

from benchmarks.common import Named, table, write
from niso.training.run import Run
from niso.training.speed import Way

PARTS = ("start", "data", "speed", "compilation", "training", "evaluation", "pictures")


@dataclass(frozen=True)
class ResultOptions(Named):
    """Options of the table."""

    runs: Annotated[tuple[Path, ...], Positional] = ()
    """Finished runs, records, or folders of either."""


def main(options: ResultOptions) -> None:
    """Read what runs tell of themselves."""
    results = []
    for run in [run for path in options.runs for run in Run.find(path)]:
        facts, (experiment, preset, method) = run.facts, run.kind
        if facts.get("times"):
            hardware = run.settings["hardware"]
            whole = hardware.get("whole_step", False)
            way = Way(hardware["precision"], hardware["compile"], hardware["threads"], whole)
            case = {"experiment": experiment, "preset": preset, "method": method, "seed": run.seed, "way": str(way)}
            case["steps"] = run.metrics.get("steps")
            where = {name: facts.get(name) for name in ("hardware", "cores", "threads", "commit", "torch", "started")}
            results.append({**case, "times": facts["times"], "speed": facts.get("speed"), **where})
    rows = []
    for result in results:
        times = result["times"]
        total = sum(times.values())
        inside = sum(times.get(part, 0.0) for part in ("training", "compilation"))
        seconds = (f"{times[part]:.1f}" if part in times else "—" for part in PARTS)
        name = f"{result['experiment']} {result['preset']}, {result['method']}, seed {result['seed']}"
        rows.append(
            (
                name,
                result["hardware"],
                result["way"],
                result["steps"],
                f"{total:.1f}",
                *seconds,
                f"{1 - inside / total:.0%}",
            )
        )
    columns = ("run", "processor", "way", "steps", "total", *PARTS, "outside training")
    table("Seconds from the command to the metrics", columns, rows)
    write("result", Named(options.name), {"results": results})


if __name__ == "__main__":
    main(tyro.cli(ResultOptions, description=__doc__))
