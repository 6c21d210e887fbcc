"""`niso data prepare co3d` and `niso data prepare video`: small square frames with their cameras."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import tyro

from niso.cli.data.progress import list_refused, with_bar
from niso.cli.parsing import parse
from niso.config import require
from niso.data.prepared import REFUSED, Outcome, Report
from niso.data.video import co3d as co3dv2
from niso.data.video import footage
from niso.data.video.files import Video
from niso.data.video.preparation import Preparation, prepare
from niso.data.video.sequences import Sequence
from niso.data.workers import cores

_NOTES = 10  # printed; all of them are in a file


@dataclass(frozen=True)
class PrepareCo3d:
    """Prepare CO3Dv2 from its own layout: frames cropped to the largest centred square and resized, with their cameras.

    Interrupted at any moment, the same command goes on. Another choice of sequences, or another split, keeps those that
    are there. What has to be refused is listed, and in OUT/refused.json; the exit status is 3 then. `niso run pose
    --data-dir OUT` trains on the result.
    """

    source: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="IN")]
    """The folder that holds CO3Dv2's categories."""
    out: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="OUT")]
    """Folder to write to."""
    quality: float = 0.25
    """Share of sequences to use, the best by viewpoint_quality_score; 1 takes those without one too."""
    held_out: float = 0.1
    """Of these, the share to test on."""
    seed: int = 0
    """Of the draw of those to test on."""
    split_file: Path | None = None
    """A JSON file {"train": [names], "test": [names]}, in place of the former three."""
    workers: int = field(default_factory=cores)
    """Processes; by default as many as there are cores."""
    preparation: Annotated[Preparation, tyro.conf.arg(name="")] = field(default_factory=Preparation)

    def __post_init__(self) -> None:
        require(self, "quality", positive=True)
        require(self, "quality", "held_out", most=1.0)
        if self.held_out >= 1:
            raise ValueError("held_out must be below 1: nothing would be left to train on")


@dataclass(frozen=True)
class PrepareVideo:
    """Prepare your own footage: frames cropped to the largest centred square and resized, with cameras if known.

    Cameras come from transforms.json (nerfstudio) or from a COLMAP model in text form; without them, video serves for
    pre-training only. Interrupted at any moment, the same command goes on. What has to be refused is listed, and in
    OUT/refused.json; the exit status is 3 then. `niso run pose --data-dir OUT` trains on the result.
    """

    source: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="IN")]
    """A video file; a folder of frames, or with transforms.json, or with `images` and COLMAP's `sparse`; or a folder of
    such files and folders, down to IN/CATEGORY/NAME."""
    out: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="OUT")]
    """Folder to write to."""
    every: int = 1
    """Frames to take: every one, every second one, …"""
    test: tuple[str, ...] = ()
    """Names of sequences to test on; by default some are drawn."""
    held_out: float = 0.1
    """Share of the sequences with cameras that is drawn to test on; at least one of two or more."""
    seed: int = 0
    """Of that draw."""
    workers: int = field(default_factory=cores)
    """Processes; by default as many as there are cores. Each prepares a sequence at a time."""
    preparation: Annotated[Preparation, tyro.conf.arg(name="")] = field(default_factory=Preparation)

    def __post_init__(self) -> None:
        require(self, "every", positive=True)
        require(self, "held_out", most=1.0)


def co3d(arguments: list[str]) -> int:
    """`niso data prepare co3d …`: the exit status."""
    options = parse(PrepareCo3d, "niso data prepare co3d", arguments)
    chosen = (
        co3dv2.read_split(options.source, options.split_file)
        if options.split_file
        else co3dv2.select(options.source, options.quality, options.held_out, options.seed)
    )
    status = _prepare(co3dv2.sequences(options.source, chosen), len(chosen.splits), options)
    if chosen.left_out:
        print(f"{len(chosen.left_out)} sequences were not chosen, see --quality and --split-file", file=sys.stderr)
    return status


def video(arguments: list[str]) -> int:
    """`niso data prepare video …`: the exit status."""
    options = parse(PrepareVideo, "niso data prepare video", arguments)
    found = footage.find_footage(options.source)
    splits = footage.splits(found, options.held_out, options.test, options.seed)
    return _prepare(footage.sequences(found, splits, options.every), len(found), options)


def _prepare(
    sequences: Iterable[Sequence | Video | tuple[str, str]], count: int, options: PrepareCo3d | PrepareVideo
) -> int:
    def work(report: Report) -> Outcome:
        return prepare(sequences, options.out, options.workers, options.preparation, report)

    outcome = with_bar(work, count, "sequences")
    notes = list(outcome.notes.items())
    for name, note in notes[:_NOTES]:
        print(f"{name}: {note}", file=sys.stderr)
    if len(notes) > _NOTES:
        print(f"… and {len(notes) - _NOTES} more lack frames, see {options.out / REFUSED}", file=sys.stderr)
    return list_refused("sequences", options.out, outcome.prepared, outcome.kept, outcome.refused)
