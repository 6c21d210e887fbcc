"""Prepare video: crop and resize frames of many sequences, in several processes, resuming where it stopped."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path

import numpy as np
from jaxtyping import Float, Int
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
from niso.data.video.prepared import FORMAT, INDEX, RECORD, check_shard
from niso.data.video.sequences import TEST, TRAIN, Draw, Frame, Refused, Source, longest_run, stands_still
from niso.errors import InputError, counted
from niso.files.digests import digest
from niso.files.json import write_json
from niso.files.writing import replacing

_EQUAL = 0.1
"""Share of pairs of neighbouring frames that are equal, above which a note says so."""


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
    sequences: Iterable[Source | Refused],
    out: Path,
    workers: int = 1,
    preparation: Preparation = Preparation(),
    report: Report = lambda name, problem: None,
    draw: Draw | None = None,
    every: int = 1,
) -> Outcome:
    """Prepare sequences into a folder, see `niso.data.video.prepared`. Unchanged sequences are kept.

    Of each sequence, the longest run of usable frames with consecutive numbers is kept: frames that are missing or
    damaged, or whose camera is not usable, end a run. Of a truncated video file, all frames that can be decoded are
    kept. Memory does not grow with the data: sequences and frames are read one at a time.

    Args:
        sequences: one by one.
        workers: processes; 1 works in this one.
        draw: names to test on, of those that were prepared; by default, sequences state their split.
        every: of which frames the sequences consist, as they were opened: a folder keeps to that.

    Raises:
        InputError: the folder holds something else, or frames prepared in another way; no sequence could be prepared;
            or see `niso.data.prepared.prepare_items`.
    """
    parameters = {"format": FORMAT, **asdict(preparation), "every": every}
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


def _prepare(source: Source | Refused, out: Path, preparation: Preparation) -> Item:
    if isinstance(source, Refused):
        return Item(source.name, None, source.reason)
    name = source.name
    if f"{name}.json" in (PARAMETERS, REFUSED, INDEX):
        return Item(name, None, f"{name}.json is a file of niso's own: rename it")

    def make(digest: str) -> Facts:
        facts = _write_shard(out / f"{name}.frames", source, preparation)
        facts |= {"digest": digest}
        write_json(out / f"{name}.json", facts)
        return facts

    item = prepare_item(out, name, source.digest, lambda facts: check_shard(out, name, facts["bytes"]), make)
    return item._replace(facts={**item.facts, "split": source.split}) if item.facts else item


def _write_shard(path: Path, source: Source, preparation: Preparation) -> Facts:
    """Write the frames one after the other, then their records; refuse mixed sizes, and too few usable frames."""
    size, endings = None, list[str]()
    numbers, poses = list[int](), list[Float[np.ndarray, "4 4"] | None]()
    problems, spans, words = dict[int, str](), dict[int, tuple[int, int]](), dict[int, int]()
    with replacing(path) as file:
        for place, frame in enumerate(_up_to_error(source.frames(preparation.size), endings)):
            numbers.append(frame.number)
            poses.append(frame.pose)
            if frame.image is None:
                problems[place] = frame.problem
                continue
            size = size or frame.size
            if frame.size != size:
                sizes = " and ".join(f"{width}×{height}" for height, width in (size, frame.size))
                raise InputError(f"its frames are of mixed sizes ({sizes} pixels, {frame.name})")
            content = jpeg(frame.image, preparation)
            spans[place] = file.tell(), len(content)
            words[place] = number_of(content)
            file.write(content)
        if endings and not spans:
            raise InputError(endings[0])
        ending = "".join(f"; {problem}" for problem in endings)
        run = longest_run(numbers, problems)
        count, reasons = len(numbers), _reasons(numbers, problems)
        if len(run) < preparation.min_frames:
            found, least = counted(len(run), "usable frame"), preparation.min_frames
            raise InputError(
                f"it has {found} in a row, {least} {'is' if least == 1 else 'are'} needed{reasons}{ending}"
            )
        notes = [ending.removeprefix("; ")]
        if len(run) < count:
            first, last = numbers[run.start], numbers[run.stop - 1]
            notes = [f"{len(run)} of {counted(count, 'frame')} kept: numbers {first} to {last}{reasons}{ending}"]
        records = np.zeros(len(run), RECORD)
        for record, place in zip(records, run, strict=True):
            record["start"], record["length"] = spans[place]
            record["number"], record["word"] = numbers[place], words[place]
            pose = poses[place]
            record["pose"] = np.nan if pose is None else pose.reshape(16)
        file.write(records.tobytes())
        notes += [_still(records["pose"].reshape(-1, 4, 4)), _equal(records["word"])]
        return {"frames": len(run), "bytes": file.tell(), "note": "; ".join(filter(None, notes))}


def _up_to_error(frames: Iterator[Frame], errors: list[str]) -> Iterator[Frame]:
    """Frames until they end or cannot be read any further, why then going to `errors`."""
    try:
        yield from frames
    except InputError as error:
        errors.append(str(error))


def _reasons(numbers: list[int], problems: dict[int, str]) -> str:
    """Why frames end a run, in brackets; empty where none does."""
    gaps = sum(after - before - 1 for before, after in pairwise(numbers))
    reasons = [f"{counted(gaps, 'number')} {'is' if gaps == 1 else 'are'} missing"] if gaps else []
    if problems:
        place = min(problems)
        unusable = f"{counted(len(problems), 'frame')} cannot be used"
        reasons.append(f"{unusable}, first number {numbers[place]}: {problems[place]}")
    return f" ({'; '.join(reasons)})" if reasons else ""


def _still(poses: Float[np.ndarray, "frames 4 4"]) -> str:
    """That a camera does not move, in words; empty where it does or is not known."""
    return "its camera does not move" if stands_still(poses) else ""


def _equal(words: Int[np.ndarray, " frames"]) -> str:
    """How many pairs of neighbouring frames are equal, in words; empty where few are."""
    equal, count = int((words[1:] == words[:-1]).sum()), len(words) - 1
    return f"{equal} of {counted(count, 'pair')} of neighbouring frames are equal" if equal > _EQUAL * count else ""


def number_of(content: bytes) -> int:
    """A number for the file of a frame, equal where files are, and not 0."""
    return int.from_bytes(bytes.fromhex(digest(content)), "little", signed=True) or 1


def jpeg(image: Image.Image, preparation: Preparation) -> bytes:
    """The file of a frame, its colours as fine as its brightness."""
    buffer = io.BytesIO()
    image.save(buffer, "JPEG", quality=preparation.jpeg_quality, subsampling=0)
    return buffer.getvalue()
