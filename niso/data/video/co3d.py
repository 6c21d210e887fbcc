"""CO3Dv2 in its own layout: a choice of sequences, and their frames and cameras.

    ROOT/<category>/frame_annotations.jgz      a JSON array: sequence_name, frame_number, image, viewpoint
    ROOT/<category>/sequence_annotations.jgz   a JSON array: sequence_name, viewpoint_quality_score
    ROOT/<category>/<sequence>/images/…        named by frame_annotations, relative to ROOT

Data and layout: Reizenstein et al., "Common Objects in 3D", ICCV 2021. Annotations are read as a stream and sequences
are given one by one: memory holds the cameras of one category at most, about 500 bytes a frame.
"""

from __future__ import annotations

import contextlib
import gzip
import json
import re
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from pydantic import TypeAdapter

from niso.data.video.sequences import TEST, TRAIN, Draw, Refused, Sequence, hold_out
from niso.errors import InputError
from niso.files.search import natural
from niso.geometry import cameras

FRAMES, SEQUENCES = "frame_annotations.jgz", "sequence_annotations.jgz"

_SPLIT = TypeAdapter(dict[Literal["train", "test"], list[str]])
_NEXT = re.compile(r"[^\s,]")  # what is neither space nor comma
_CHUNK = 1 << 20  # characters that are decompressed at a time
_LARGEST = 1 << 24  # characters of one annotation, above which it cannot be one


@dataclass(frozen=True)
class Selection:
    """A choice of sequences.

    Attributes:
        splits: "train" or "test", by the name "category/sequence"; as drawn if none of them is refused.
        left_out: reasons for sequences that were not chosen, by name.
        draw: draws names to test on from those that could be prepared; None if a file states them.
    """

    splits: dict[str, str]
    left_out: dict[str, str]
    draw: Draw | None = None


def select(root: Path, quality: float = 0.25, held_out: float = 0.1, seed: int = 0) -> Selection:
    """The paper's choice: the best quarter by `viewpoint_quality_score` over all categories, a tenth of it held out.

    Args:
        quality: share of the scored sequences to keep, the best; 1 keeps those without a score too.
        held_out: share of the kept sequences to test on; at least one unless it is 0.
        seed: of the draw of held-out sequences.

    Raises:
        InputError: there are no annotations, they cannot be read, or none has a score.
    """
    if not (0 < quality <= 1 and 0 <= held_out < 1):
        raise ValueError(f"quality must be in (0, 1] and held_out in [0, 1), got {quality} and {held_out}")
    scores = _scores(root)
    left_out = dict[str, str]()
    kept = sorted(scores)
    if quality < 1:
        scored = {name: score for name, score in scores.items() if score is not None and np.isfinite(score)}
        if not scored:
            raise InputError(f"no sequence in {root} has a viewpoint_quality_score: keep all of them (quality 1)")
        ranked = sorted(scored, key=lambda name: (-scored[name], name))
        best = ranked[: max(1, round(quality * len(ranked)))]
        left_out = {name: "it has no viewpoint_quality_score" for name in scores if name not in scored}
        left_out |= {name: f"its viewpoint_quality_score {scored[name]:.3g} is too low" for name in ranked[len(best) :]}
        kept = sorted(best)
    draw = partial(hold_out, kept, held_out, seed)
    test = draw(kept)
    return Selection({name: TEST if name in test else TRAIN for name in kept}, left_out, draw)


def read_split(root: Path, path: Path) -> Selection:
    """A choice stated in a JSON file: {"train": [names], "test": [names]}, "category/sequence" or "sequence".

    Raises:
        InputError: the file cannot be read, or names a sequence that is unknown, ambiguous, or in both parts.
    """
    try:
        stated = _SPLIT.validate_json(path.read_text(encoding="utf-8-sig"))
    except (OSError, ValueError) as error:
        wrong = 'it must hold {"train": [names], "test": [names]}'
        problem = error.strerror if isinstance(error, OSError) else wrong
        raise InputError(f"cannot read split file {path} ({problem}): give it by --split-file") from error
    known = dict.fromkeys(_scores(root))
    full: dict[str, list[str]] = {}
    for name in known:
        full.setdefault(name, []).append(name)
        full.setdefault(name.partition("/")[2], []).append(name)
    splits = dict[str, str]()
    for split, names in stated.items():
        for name in names:
            matches = full.get(name, [])
            if len(matches) != 1:
                problem = f"is in several categories ({', '.join(matches)})" if matches else f"is not in {root}"
                raise InputError(f"split file {path}: sequence {name} {problem}")
            if matches[0] in splits:
                raise InputError(f"split file {path}: sequence {name} is named twice")
            splits[matches[0]] = split
    return Selection(splits, {name: "the split file does not name it" for name in known if name not in splits})


def sequences(root: Path, selection: Selection) -> Iterator[Sequence | Refused]:
    """Sequences of a selection, also those that cannot be used, category by category.

    Frames are sorted by number. Those whose camera is missing, not finite, a reflection or not a rotation are named in
    `Sequence.problems`.

    Raises:
        InputError: annotations are missing, damaged, or not of CO3Dv2.
    """
    by_category: dict[str, dict[str, str]] = {}
    for name, split in selection.splits.items():
        category, _, own = name.partition("/")
        by_category.setdefault(category, {})[own] = split
    for category, wanted in sorted(by_category.items()):
        frames = _frames(root / category / FRAMES, set(wanted))
        for name in sorted(wanted, key=natural):
            full = f"{category}/{name}"
            try:
                if not frames[name]:
                    raise InputError(f"{FRAMES} has no frame of it")
                yield _sequence(frames.pop(name), root, full, wanted[name])
            except InputError as error:
                yield Refused(full, str(error))


class _Frame(NamedTuple):
    """Annotation of one frame."""

    number: int
    path: str
    size: tuple[int, int]
    camera: bytes  # R, T: 12 numbers, NaN where there are none


def _sequence(frames: list[_Frame], root: Path, name: str, split: str) -> Sequence:
    frames.sort(key=lambda frame: frame.number)
    numbers, paths, sizes, values = (list(column) for column in zip(*frames, strict=True))
    if len(set(numbers)) < len(numbers):
        raise InputError("frame numbers occur twice")
    if len(set(sizes)) > 1:
        raise InputError(f"its frames are of mixed sizes ({', '.join(f'{w}×{h}' for h, w in sorted(set(sizes)))})")
    camera = torch.frombuffer(bytearray(b"".join(values)), dtype=torch.float64).reshape(-1, 12)
    signs = torch.tensor([-1.0, -1.0, 1.0], dtype=torch.float64)  # PyTorch3D's axes to OpenCV's
    rotations = signs[:, None] * camera[:, :9].unflatten(-1, (3, 3)).mT
    poses, problems = cameras.from_world_to_camera(rotations, signs * camera[:, 9:])
    images = [root / path for path in paths]
    return Sequence(name, images, numbers, poses, split, problems, sizes[0])


def _frames(path: Path, wanted: set[str]) -> dict[str, list[_Frame]]:
    """Annotations of the frames of some sequences, by sequence."""
    frames: dict[str, list[_Frame]] = {name: [] for name in wanted}
    for frame in _stream(path):
        try:
            if frame["sequence_name"] not in wanted:
                continue
            image, view = frame["image"], frame.get("viewpoint")
            values = np.full(12, np.nan)
            if view is not None:
                values = np.concatenate([np.asarray(view[part], np.float64).ravel() for part in ("R", "T")])
            if values.shape != (12,):
                raise ValueError("a viewpoint has the wrong number of entries")
            height, width = map(int, image["size"])
            found = _Frame(int(frame["frame_number"]), str(image["path"]), (height, width), values.tobytes())
            frames[frame["sequence_name"]].append(found)
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            number = frame.get("frame_number") if isinstance(frame, dict) else None
            raise InputError(f"{path}: an annotation (frame {number}) is not CO3Dv2's ({error!r})") from error
    return frames


def _scores(root: Path) -> dict[str, float | None]:
    """Quality scores of all sequences by "category/sequence"."""
    if not root.is_dir():
        raise InputError(f"{root} is not a folder: give the one that holds CO3Dv2's categories")
    found = (path for folder in root.iterdir() if folder.is_dir() for path in folder.iterdir())  # `glob` passes over
    paths = sorted(path for path in found if path.name == SEQUENCES)  # folders that cannot be read
    if not paths:
        raise InputError(f"{root} holds no <category>/{SEQUENCES}: give the folder that holds CO3Dv2's categories")
    scores = dict[str, float | None]()
    for path in paths:
        for entry in _stream(path):
            try:
                score = entry.get("viewpoint_quality_score")
                scores[f"{path.parent.name}/{entry['sequence_name']}"] = None if score is None else float(score)
            except (AttributeError, KeyError, TypeError, ValueError, OverflowError) as error:
                raise InputError(f"{path}: an annotation is not CO3Dv2's ({error!r})") from error
    return scores


def _stream(path: Path) -> Iterator[Any]:
    """Elements of a gzipped JSON array, one at a time: the largest categories would fill gigabytes."""
    try:
        with gzip.open(path, "rt", encoding="utf-8") as file:
            yield from _elements(file.read)
    except (OSError, EOFError, zlib.error, ValueError, RecursionError) as error:
        problem = "is missing" if isinstance(error, FileNotFoundError) else f"is truncated or damaged ({error})"
        raise InputError(f"{path} {problem}: fetch it again") from error


def _elements(read: Callable[[int], str]) -> Iterator[Any]:
    """Elements of a JSON array. (ijson 3.6 refuses NaN, which Python writes, and takes three times as long.)"""
    decoder, text, place = json.JSONDecoder(), read(_CHUNK).lstrip(), 1
    if not text.startswith("["):
        raise ValueError("it does not hold a JSON array")
    while True:
        start = _NEXT.search(text, place)
        place = end = start.start() if start else len(text)
        if text.startswith("]", place):
            return
        element = None
        with contextlib.suppress(ValueError):
            element, end = decoder.raw_decode(text, place)
        if place < end < len(text):  # at the end of the text, a number may go on
            yield element
            place = end
        elif len(text) - place > _LARGEST or not (more := read(_CHUNK)):
            raise ValueError("its JSON is not valid, or ends within the array")
        else:
            text, place = text[place:] + more, 0
