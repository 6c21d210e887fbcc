"""Prepare video: crop and resize frames of many sequences, in several processes, resuming where it stopped."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path

import numpy as np
from PIL import Image

from niso.config import Strict, require
from niso.data.prepared import (
    PARAMETERS,
    REFUSED,
    Facts,
    Item,
    Outcome,
    Report,
    check_folder,
    prepare_item,
    prepare_items,
)
from niso.data.squares import read_square, square
from niso.data.video.files import Video, read_video
from niso.data.video.prepared import FORMAT, INDEX, RECORD, check_shard
from niso.data.video.sequences import TEST, TRAIN, Draw, Sequence, longest_run
from niso.errors import InputError, counted
from niso.files import replacing, write_json


@dataclass(frozen=True)
class Preparation(Strict):
    """Settings of prepared frames."""

    size: int = 144
    """Height and width: the largest centred square, resized."""
    min_frames: int = 21
    """Usable frames in a row that a sequence must have; 21 are three frames at skip 9."""
    jpeg_quality: int = 92
    """Of the stored frames, 1 … 95, without subsampling of colours."""

    def __post_init__(self) -> None:
        require(self, "size", "min_frames", positive=True)
        require(self, "jpeg_quality", positive=True, most=95.0)


def prepare(
    sequences: Iterable[Sequence | Video | tuple[str, str]],
    out: Path,
    workers: int = 1,
    preparation: Preparation = Preparation(),
    report: Report = lambda name, problem: None,
    draw: Draw | None = None,
) -> Outcome:
    """Prepare sequences into a folder, see `niso.data.video.prepared`. Unchanged sequences are kept.

    Of each sequence, the longest run of usable frames with consecutive numbers is kept: frames that are missing or
    damaged, or whose camera is not usable, end a run. Of a truncated video file, all frames that can be decoded are
    kept. Memory does not grow with the data: sequences and frames are read one at a time.

    Args:
        sequences: one by one, or (name, reason) for those that a reader refused.
        workers: processes; 1 works in this one.
        draw: names to test on, of those that were prepared; by default, sequences state their split.

    Raises:
        InputError: the folder holds something else, or frames prepared in another way; no sequence could be prepared;
            or see `niso.data.prepared.prepare_items`.
    """
    parameters = {"format": FORMAT, **asdict(preparation)}
    check_folder(out, "frames", parameters)

    def finish(facts: dict[str, Facts], outcome: Outcome) -> Facts:
        write_json(out / REFUSED, {"refused": outcome.refused, "notes": outcome.notes})
        if not facts:
            name, problem = next(iter(outcome.refused.items()), ("", "there are none"))
            raise InputError(f"no sequence could be prepared ({name}: {problem}); see {out / REFUSED}")
        test = draw(facts) if draw else {name for name, one in facts.items() if one["split"] == TEST}
        return {
            name: {"frames": one["frames"], "split": TEST if name in test else TRAIN, "bytes": one["bytes"]}
            for name, one in facts.items()
        }

    work = partial(_prepare, out=out, preparation=preparation)
    return prepare_items(work, sequences, out, parameters, INDEX, finish, workers, report)


def _prepare(sequence: Sequence | Video | tuple[str, str], out: Path, preparation: Preparation) -> Item:
    if isinstance(sequence, tuple):
        return Item(sequence[0], None, sequence[1])
    name = sequence.name
    if f"{name}.json" in (PARAMETERS, REFUSED, INDEX):
        return Item(name, None, f"{name}.json is a file of niso's own: rename it")

    def make(digest: str) -> Facts:
        facts = _write_shard(out / f"{name}.frames", sequence, preparation)
        facts |= {"digest": digest}
        write_json(out / f"{name}.json", facts)
        return facts

    item = prepare_item(
        out, name, partial(_digest, sequence), lambda facts: check_shard(out, name, facts["bytes"]), make
    )
    split = TRAIN if isinstance(sequence, Video) else sequence.split
    return item._replace(facts={**item.facts, "split": split}) if item.facts else item


def _write_shard(path: Path, sequence: Sequence | Video, preparation: Preparation) -> Facts:
    """Write the frames one after the other, then their records; refuse mixed sizes, and too few usable frames."""
    problems = dict[int, str]() if isinstance(sequence, Video) else dict(sequence.problems)
    cameras = None if isinstance(sequence, Video) else sequence.size
    size = None
    spans = dict[int, tuple[int, int]]()
    with replacing(path) as file:
        for place, name, content, actual in _encoded(sequence, preparation, problems):
            if size is None:
                size = actual
                _check_scaled(size, cameras or size)
            if actual != size:
                sizes = " and ".join(f"{width}×{height}" for height, width in (size, actual))
                raise InputError(f"its frames are of mixed sizes ({sizes} pixels, {name})")
            spans[place] = file.tell(), len(content)
            file.write(content)
        ending = ""
        if isinstance(sequence, Video):
            if not spans:
                raise InputError(next(iter(problems.values())))
            ending = "".join(f"; {problem}" for problem in problems.values())
            problems, sequence = {}, Sequence(sequence.name, [], list(range(len(spans))))
        run = longest_run(sequence.numbers, problems)
        count, reasons = len(sequence.numbers), _reasons(sequence, problems)
        if len(run) < preparation.min_frames:
            found, least = counted(len(run), "usable frame"), preparation.min_frames
            raise InputError(
                f"it has {found} in a row, {least} {'is' if least == 1 else 'are'} needed{reasons}{ending}"
            )
        note = ending
        if len(run) < count:
            first, last = sequence.numbers[run.start], sequence.numbers[run.stop - 1]
            note = f"{len(run)} of {counted(count, 'frame')} kept: numbers {first} to {last}{reasons}{ending}"
        records = np.zeros(len(run), RECORD)
        for record, place in zip(records, run, strict=True):
            record["start"], record["length"] = spans[place]
        kept = slice(run.start, run.stop)
        records["number"] = sequence.numbers[kept]
        records["pose"] = np.nan if sequence.poses is None else sequence.poses[kept].reshape(-1, 16)
        file.write(records.tobytes())
        return {"frames": len(run), "bytes": file.tell(), "note": note.removeprefix("; ")}


def _check_scaled(size: tuple[int, int], cameras: tuple[int, int]) -> None:
    """Check that images are those that their cameras are of, or copies of another scale, up to rounding to pixels."""
    (height, width), (whole_height, whole_width) = size, cameras
    if abs(height * whole_width - width * whole_height) > max(cameras):
        raise InputError(
            f"its frames have {width}×{height} pixels and its cameras are of {whole_width}×{whole_height}: give the "
            "images that the cameras were found from, or copies of another scale"
        )


def _encoded(
    sequence: Sequence | Video, preparation: Preparation, problems: dict[int, str]
) -> Iterator[tuple[int, str, bytes, tuple[int, int]]]:
    """Usable frames: place, name, JPEG file, and the height and width that they had; others go to `problems`."""
    if isinstance(sequence, Video):
        place = 0
        try:
            for place, (_, image) in enumerate(read_video(sequence.path, sequence.every), 1):
                content = _jpeg(square(image, preparation.size), preparation)
                yield place - 1, f"frame {place - 1}", content, image.size[::-1]
        except InputError as error:
            problems[place] = str(error)
        return
    for place, path in enumerate(sequence.images):
        if place in problems:
            continue
        try:
            image, size = read_square(path, preparation.size, upright=sequence.poses is None)
        except InputError as error:
            problems[place] = str(error)
            continue
        yield place, path.name, _jpeg(image, preparation), size


def _reasons(sequence: Sequence, problems: dict[int, str]) -> str:
    """Why frames end a run, in brackets; empty where none does."""
    numbers = sequence.numbers
    gaps = sum(after - before - 1 for before, after in pairwise(numbers))
    reasons = [f"{counted(gaps, 'number')} {'is' if gaps == 1 else 'are'} missing"] if gaps else []
    if problems:
        place = min(problems)
        unusable = f"{counted(len(problems), 'frame')} cannot be used"
        reasons.append(f"{unusable}, first number {numbers[place]}: {problems[place]}")
    return f" ({'; '.join(reasons)})" if reasons else ""


def _jpeg(image: Image.Image, preparation: Preparation) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, "JPEG", quality=preparation.jpeg_quality, subsampling=0)
    return buffer.getvalue()


def _digest(sequence: Sequence | Video) -> str:
    """Of everything that the shard depends on; files by name, size and time."""
    digest = hashlib.blake2b(digest_size=16)
    for path in [sequence.path] if isinstance(sequence, Video) else sequence.images:
        status = path.stat() if path.is_file() else None
        facts = (path.name, status.st_size, status.st_mtime_ns) if status else (path.name,)
        digest.update(repr(facts).encode())
    if isinstance(sequence, Video):
        digest.update(repr(sequence.every).encode())
        return digest.hexdigest()
    digest.update(repr((sequence.numbers, sorted(sequence.problems.items()), sequence.size)).encode())
    poses = sequence.poses
    digest.update(b"-" if poses is None else np.ascontiguousarray(poses, np.float64).tobytes())
    return digest.hexdigest()
