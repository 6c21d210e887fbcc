"""Prepare many shapes: several processes, resumed where it was interrupted, refused shapes listed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import NamedTuple

from niso.data.prepared import PARAMETERS, REFUSED, check_folder, read_json, write_json, writing
from niso.data.shapes.preparation import Preparation, prepare_shape
from niso.data.shapes.prepared import FORMAT, open_maps, prepared_names, write_shape
from niso.data.shapes.sources import Source
from niso.data.workers import unordered
from niso.errors import InputError
from niso.files import locked


class Outcome(NamedTuple):
    """What became of the shapes.

    Attributes:
        prepared: how many were prepared now.
        kept: how many were there already.
        refused: reasons by name.
    """

    prepared: int
    kept: int
    refused: dict[str, str]


Report = Callable[[str, str | None], None]
"""Called after each shape with its name and why it was refused, if it was."""


def prepare_folder(
    sources: Sequence[Source],
    out: Path,
    preparation: Preparation,
    workers: int = 1,
    report: Report = lambda name, problem: None,
) -> Outcome:
    """Prepare shapes into a folder, see `niso.data.shapes.prepared`. Shapes of unchanged files that are there are kept.

    Args:
        workers: processes; 1 works in this one.

    Raises:
        InputError: the folder holds something else, shapes prepared in another way, or shapes that are not among the
            sources; another process works on it; it cannot be written to, e.g. because the disk is full; or a process
            was killed. Whatever was finished is kept.
    """
    if workers < 1:
        raise InputError(f"workers must be at least 1, got {workers}")
    _check_folder(out, sources, preparation)
    classes = sorted({source.name.partition("/")[0] for source in sources})
    with writing(out):
        out.mkdir(parents=True, exist_ok=True)
    with locked(out):
        with writing(out):
            write_json(out / PARAMETERS, {"format": FORMAT, "classes": classes, **asdict(preparation)})
            (out / REFUSED).unlink(missing_ok=True)
        refused, kept = dict[str, str](), 0
        work = partial(_one, out=out, preparation=preparation)
        for name, problem, done in unordered(work, sources, workers):
            kept += done
            if problem:
                refused[name] = problem
            report(name, problem)
        with writing(out):
            write_json(out / REFUSED, dict(sorted(refused.items())))
    return Outcome(len(sources) - len(refused) - kept, kept, refused)


def _check_folder(out: Path, sources: Sequence[Source], preparation: Preparation) -> None:
    if not check_folder(out, "shapes", {"format": FORMAT, **asdict(preparation)}):
        return
    others = sorted(set(prepared_names(out)) - {source.name for source in sources})
    if others:
        raise InputError(f"{out} holds {others[0]}, which is not among the shapes: choose another folder, or remove it")


def _one(source: Source, out: Path, preparation: Preparation) -> tuple[str, str | None, bool]:
    """Prepare one shape: its name, why it was refused, and whether it had been prepared before.

    Raises:
        InputError: the folder cannot be written to.
    """
    record = out / f"{source.name}.json"
    try:
        digest = source.digest()
        if _is_prepared(out, source.name, digest):
            return source.name, None, True
        maps, facts, surface = prepare_shape(source, preparation)
    except InputError as error:
        with writing(record):
            record.unlink(missing_ok=True)  # of the shape as it was before its files changed
        return source.name, str(error), False
    with writing(record):
        record.unlink(missing_ok=True)
        write_shape(out, source.name, maps, {**facts, "digest": digest}, surface)
    return source.name, None, False


def _is_prepared(out: Path, name: str, digest: str) -> bool:
    """Whether a shape is there, whole, and of the same files."""
    try:
        open_maps(out, name)
        return read_json(out / f"{name}.json").get("digest") == digest
    except InputError:
        return False
