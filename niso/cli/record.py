"""`niso record RUN…`: finished runs as small JSON files."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from niso.cli.options import Runs
from niso.files.paths import check_place


@dataclass(frozen=True)
class Options(Runs):
    """Keep settings, facts and metrics of finished runs as small JSON files."""

    examples: ClassVar[dict[str, str]] = {
        "niso record runs/torus-quick-niso-seed0": "to results/",
        "niso record runs/all --to results/mine": "each run of a folder of several",
    }

    to: Path = Path("results")
    """Folder to write to."""

    def __call__(self) -> None:
        from niso.errors import InputError
        from niso.runs.record import place_of_record, write_record
        from niso.runs.sweep import unstarted
        from niso.training.run import Run

        check_place(self.to, "--to")
        for missing in (line for path in self.runs for line in unstarted(path)):
            raise InputError(missing)
        runs = Run.find(*self.runs)
        places = dict[Path, Run]()
        for run in runs:
            other = places.setdefault(place_of_record(run, self.to), run)
            if other is not run:
                raise InputError(f"{other.path} and {run.path} would have one record: give each a folder of its own")
        for run in runs:
            print(write_record(run, self.to))
