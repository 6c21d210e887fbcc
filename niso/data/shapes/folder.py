"""Prepare many shapes: several processes, resumed where it was interrupted, refused shapes listed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path

from niso.data.prepared import (
    REFUSED,
    Facts,
    Item,
    Outcome,
    Report,
    check_folder,
    prepare_item,
    prepare_items,
    write_json,
)
from niso.data.shapes.preparation import Preparation, prepare_shape
from niso.data.shapes.prepared import FORMAT, open_maps, prepared_names, write_shape
from niso.data.shapes.sources import Source
from niso.errors import InputError


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
            sources; or see `niso.data.prepared.prepare_items`.
    """
    parameters = {"format": FORMAT, **asdict(preparation)}
    if check_folder(out, "shapes", parameters):
        others = sorted(set(prepared_names(out)) - {source.name for source in sources})
        if others:
            problem = f"{out} holds {others[0]}, which is not among the shapes"
            raise InputError(f"{problem}: choose another folder, or remove it")
    parameters["classes"] = sorted({source.name.partition("/")[0] for source in sources})

    def finish(facts: dict[str, Facts], outcome: Outcome) -> None:
        write_json(out / REFUSED, outcome.refused)

    work = partial(_prepare, out=out, preparation=preparation)
    return prepare_items(work, sources, out, parameters, REFUSED, finish, workers, report)


def _prepare(source: Source, out: Path, preparation: Preparation) -> Item:
    def make(digest: str) -> Facts:
        maps, facts, surface = prepare_shape(source, preparation)
        write_shape(out, source.name, maps, facts | {"digest": digest}, surface)
        return facts

    return prepare_item(out, source.name, source.digest, lambda facts: open_maps(out, source.name), make)
