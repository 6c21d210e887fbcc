"""`niso data prepare co3d IN OUT`: CO3Dv2 as small square frames with their cameras."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Annotated, ClassVar

from tyro.conf import Positional, arg

from niso.cli.data.prepare.common import Preparing
from niso.config import require
from niso.data.video import co3d
from niso.data.video.preparation import Preparation, prepare
from niso.data.video.prepared import open_frames


@dataclass(frozen=True, kw_only=True)
class Options(Preparing):
    """Prepare CO3Dv2 from its own layout: frames cropped to the largest centred square and resized, with their cameras.

    After an interruption, the same command continues. Another choice of sequences, or another split, keeps those that
    are there. What has to be refused is listed, and written to OUT/refused.json; the exit status is then 3. `niso run
    pose --data-dir OUT` trains on the result.
    """

    examples: ClassVar[dict[str, str]] = {
        "niso data prepare co3d CO3D prepared": "the best quarter by quality score",
        "niso run pose --data-dir prepared": "then",
    }

    source: Annotated[Path, Positional, arg(metavar="IN")]
    """The folder that holds CO3Dv2's categories."""
    quality: float = 0.25
    """Share of sequences to use, the best by viewpoint_quality_score; 1 also takes those without one."""
    held_out: float = 0.1
    """Of these, the share to test on."""
    seed: int = 0
    """Seed of the draw of the sequences to test on."""
    split_file: Path | None = None
    """A JSON file {"train": [names], "test": [names]} instead of the previous three."""
    preparation: Annotated[Preparation, arg(name="")] = field(default_factory=Preparation)

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self, "quality", positive=True)
        require(self, "quality", "held_out", most=1.0)
        if self.held_out >= 1:
            raise ValueError("held_out must be below 1: nothing would be left to train on")

    def unread(self) -> dict[str, str]:
        """Options that others put out of force, and why."""
        replaced = ("quality", "held_out", "seed")
        return dict.fromkeys(replaced, "--split-file replaces it") if self.split_file else {}

    def __call__(self) -> int:
        if self.split_file:
            chosen = co3d.read_split(self.source, self.split_file)
        else:
            chosen = co3d.select(self.source, self.quality, self.held_out, self.seed)
        sequences = co3d.sequences(self.source, chosen)
        work = partial(prepare, sequences, self.out, self.workers, self.preparation, draw=chosen.draw)
        status = self.prepare_all(work, len(chosen.splits), "sequences")
        if note := open_frames(self.out).copied():
            print(note, file=sys.stderr)
        if chosen.left_out:
            print(f"{len(chosen.left_out)} sequences were not chosen, see --quality and --split-file", file=sys.stderr)
        return status
