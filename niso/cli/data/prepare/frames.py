"""What `niso data prepare co3d` and `niso data prepare video` share: small square frames with their cameras."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

from tyro.conf import Positional, arg

from niso.cli.data.prepare.progress import list_refused, with_bar
from niso.data.prepared import REFUSED
from niso.data.video.files import Video
from niso.data.video.preparation import Outcome, Preparation, Report, prepare
from niso.data.video.sequences import Sequence
from niso.data.workers import cores

PRINTED_NOTES = 10  # the others are only in a file


@dataclass(frozen=True, kw_only=True)
class FrameOptions:
    """Options of both commands."""

    source: Annotated[Path, Positional, arg(metavar="IN")]
    """What to prepare; comes before OUT in a call, and each command describes its own."""
    out: Annotated[Path, Positional, arg(metavar="OUT")]
    """Folder to write to."""
    workers: int = field(default_factory=cores)
    """Processes, each preparing one sequence at a time; by default one for each core."""
    preparation: Annotated[Preparation, arg(name="")] = field(default_factory=Preparation)


def prepare_frames(sequences: Iterable[Sequence | Video | tuple[str, str]], count: int, options: FrameOptions) -> int:
    """Prepare `count` sequences and print what became of them. Returns the exit status."""

    def work(report: Report) -> Outcome:
        return prepare(sequences, options.out, options.workers, options.preparation, report)

    outcome = with_bar(work, count, "sequences")
    notes = list(outcome.notes.items())
    for name, note in notes[:PRINTED_NOTES]:
        print(f"{name}: {note}", file=sys.stderr)
    if len(notes) > PRINTED_NOTES:
        print(f"… and {len(notes) - PRINTED_NOTES} more lack frames, see {options.out / REFUSED}", file=sys.stderr)
    return list_refused("sequences", options.out, outcome.prepared, outcome.kept, outcome.refused)
