"""`niso record RUN…`: finished runs as small JSON files."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from niso.cli.parsing import Runs, parse


@dataclass(frozen=True)
class Options(Runs):
    """Keep settings, facts and metrics of finished runs as small JSON files."""

    to: Path = Path("results")
    """Folder to write to."""


def main(arguments: list[str]) -> None:
    """`niso record …`."""
    options = parse(Options, "niso record", arguments)
    from niso.runs import Run
    from niso.runs.record import write_record

    for run in [run for path in options.runs for run in Run.find(path)]:
        print(write_record(run, options.to))
