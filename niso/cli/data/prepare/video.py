"""`niso data prepare video IN OUT`: your own footage as small square frames, with cameras if known."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Annotated, ClassVar

from tyro.conf import Positional, arg

from niso.cli.data.prepare.common import Preparing, shortened
from niso.config import require
from niso.data.pictures import rounded_grey
from niso.data.video import footage
from niso.data.video.preparation import Preparation, prepare
from niso.data.video.prepared import open_frames
from niso.errors import counted


@dataclass(frozen=True, kw_only=True)
class Options(Preparing):
    """Prepare your own footage: frames cropped to the largest centred square and resized, with cameras if known.

    Cameras come from transforms.json (nerfstudio) or from a COLMAP model in text form; video without them serves for
    pre-training only. After an interruption, the same command continues. What has to be refused is listed, and written
    to OUT/refused.json; the exit status is then 3. `niso run pose --data-dir OUT` trains on the result.
    """

    examples: ClassVar[dict[str, str]] = {
        "niso data prepare video walk.mp4 prepared": "one video, without cameras",
        "niso run pose --data-dir prepared --rendered 0.5": "then",
    }

    source: Annotated[Path, Positional, arg(metavar="IN")]
    """A video file; a folder of frames, or with transforms.json, or with `images` and COLMAP's `sparse`; or a folder of
    such files and folders, down to IN/CATEGORY/NAME."""
    every: int = 1
    """Frames to take: every one, every second one, …"""
    test: Annotated[tuple[str, ...], arg(metavar="NAME…", help_behavior_hint="(default: some are drawn)")] = ()
    """Names of sequences to test on."""
    held_out: float = 0.1
    """Share of the prepared sequences with cameras that is drawn to test on; at least one of two or more."""
    seed: int = 0
    """Seed of that draw."""
    preparation: Annotated[Preparation, arg(name="")] = field(default_factory=Preparation)

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self, "every", positive=True)
        require(self, "held_out", most=1.0)

    def unread(self) -> dict[str, str]:
        """Options that others put out of force, and why."""
        return dict.fromkeys(("held_out", "seed"), "--test names the sequences to test on") if self.test else {}

    def __call__(self) -> int:
        videos = footage.find_footage(self.source)
        for line in shortened(footage.overlooked(self.source, videos)):
            print(f"not read: {line}", file=sys.stderr)
        if note := rounded_grey(self.source):
            print(note, file=sys.stderr)
        draw = footage.draw(videos, self.held_out, self.test, self.seed)
        sequences = footage.sequences(videos, self.every)
        work = partial(prepare, sequences, self.out, self.workers, self.preparation, draw=draw, every=self.every)
        status = self.prepare_all(work, len(videos), "sequences")
        frames = open_frames(self.out)
        if note := frames.copied():
            print(note, file=sys.stderr)
        posed = sum(bool(frames.poses(number).isfinite().all()) for number in range(len(frames.names)))
        print(f"{posed} of {counted(len(frames.names), 'sequence')} with cameras", file=sys.stderr)
        if lost := sorted(set(self.test) - set(frames.names)):
            print(f"refused, and so not there to test on: {', '.join(lost)}", file=sys.stderr)
        return status
