"""Prepared folders, of shapes or of frames: facts in JSON files, items kept or prepared again, errors with a remedy."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from niso.data.workers import unordered
from niso.errors import InputError
from niso.files.folders import CLUTTER, is_empty
from niso.files.json import parse_json, write_json
from niso.files.locks import locked
from niso.files.paths import lacks
from niso.files.writing import refusing

PARAMETERS, REFUSED = "parameters.json", "refused.json"
AGAIN = "give the same command again to go on"
_UNSTATED = {"every": 1}
"""Parameters that folders did not always state, and what they most often were."""

Source = TypeVar("Source")
Facts = dict[str, Any]

Report = Callable[[str, str | None], None]
"""Called after each item with its name and why it was refused, if it was."""


class Item(NamedTuple):
    """A shape or a sequence after its preparation: `facts` is None where it was refused for `problem`."""

    name: str
    facts: Facts | None
    problem: str | None = None
    kept: bool = False


class Outcome(NamedTuple):
    """Numbers of items prepared now and kept from before; why others were refused, and what parts left out, by name."""

    prepared: int
    kept: int
    refused: dict[str, str]
    notes: dict[str, str]


def prepare_items(
    prepare: Callable[[Source], Item],
    sources: Iterable[Source],
    out: Path,
    parameters: Facts,
    last: str,
    finish: Callable[[dict[str, Facts], Outcome], Facts],
    workers: int,
    report: Report,
) -> Outcome:
    """Prepare items into a folder that `check_folder` has passed.

    Args:
        prepare: one item, see `prepare_item`.
        last: name of the file that says that the preparation is finished; removed at first.
        finish: content of that file, from facts by name and the outcome.
        workers: processes; 1 works in this one.

    Raises:
        InputError: a name comes twice; another process works on the folder; it cannot be written to, e.g. because the
            disk is full; or a process was killed. Whatever was finished is kept.
    """
    items = unordered(prepare, sources, workers)
    with writing(out):
        out.mkdir(parents=True, exist_ok=True)
    facts, refused, kept = dict[str, Facts](), dict[str, str](), 0
    with locked(out):
        with writing(out):
            (out / last).unlink(missing_ok=True)
            write_json(out / PARAMETERS, parameters)
        for item in items:
            if item.name in facts or item.name in refused:
                raise InputError(f"{item.name} comes twice: names must be unique")
            report(item.name, item.problem)
            kept += item.kept
            if item.facts is None:
                refused[item.name] = item.problem or ""
            else:
                facts[item.name] = item.facts
        facts, refused = dict(sorted(facts.items())), dict(sorted(refused.items()))
        notes = {name: one["note"] for name, one in facts.items() if one.get("note")}
        outcome = Outcome(len(facts) - kept, kept, refused, notes)
        with writing(out):
            write_json(out / last, finish(facts, outcome))
    return outcome


def prepare_item(
    out: Path, name: str, digest: Callable[[], str], check: Callable[[Facts], object], make: Callable[[str], Facts]
) -> Item:
    """Prepare one item, unless it is there, whole and from the same files.

    Args:
        digest: fingerprint of all that the item depends on.
        check: raises InputError where data that belong to facts are missing or damaged.
        make: writes data and facts, the given digest among them, and returns the facts.

    Raises:
        InputError: the folder cannot be written to.
    """
    record = out / f"{name}.json"
    with writing(record):
        try:
            fingerprint = digest()
            with suppress(InputError, KeyError):
                facts = read_json(record)
                check(facts)
                if facts["digest"] == fingerprint:
                    return Item(name, facts, kept=True)
            record.unlink(missing_ok=True)
            return Item(name, make(fingerprint))
        except InputError as error:
            record.unlink(missing_ok=True)  # of the item before its files changed
            return Item(name, None, str(error))


def read_json(path: Path) -> Facts:
    """A JSON file of a prepared folder, which can be made again, unless it is the one that says what the folder holds.

    Raises:
        InputError: it cannot be read, or does not hold an object.
    """
    again = "remove it and prepare the folder again"
    if path.name == PARAMETERS:  # without which the folder would be refused
        again = "prepare into another folder, or empty this one first"
    try:
        values = parse_json(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"cannot read {path} ({error}): {again}") from error
    if not isinstance(values, dict):
        raise InputError(f"{path} does not hold facts of a preparation: {again}")
    return values


def open_folder(folder: Path, what: str, commands: str, format: int, last: str) -> Facts:
    """Parameters of a finished preparation of `what` by these commands, `last` being the file that ends it.

    Raises:
        InputError: the folder is missing, not prepared, prepared in another format, or not to the end.
    """
    if not (folder / PARAMETERS).is_file():
        raise InputError(f"{folder} holds no prepared {what}: {lacks(folder, PARAMETERS)}; make it with {commands}")
    parameters = read_json(folder / PARAMETERS)
    if parameters.get("format") != format:
        given = parameters.get("format")
        raise InputError(
            f"{folder} has format {given}, and this version reads {format}: prepare the {what} again, in another folder"
        )
    if not (folder / last).is_file():
        raise InputError(f"the preparation of {folder} is not finished: {AGAIN}")
    return parameters


def writing(path: Path) -> AbstractContextManager[None]:
    """See `niso.files.writing.refusing`; whatever was finished is kept."""
    return refusing(f"write {path}", f", then {AGAIN}")


def check_folder(out: Path, what: str, parameters: Facts) -> bool:
    """Whether a folder to prepare into holds a preparation already, which these parameters go on with.

    Args:
        what: "shapes" or "frames".

    Raises:
        InputError: it is not a folder, holds something else, or was prepared with other parameters.
    """
    if out.exists() and not out.is_dir():
        raise InputError(f"{out} is not a folder: choose another one")
    if not (out / PARAMETERS).is_file():
        if out.is_dir() and not is_empty(out, PARAMETERS, {".lock", *CLUTTER}):
            raise InputError(f"{out} is not empty and holds no prepared {what}: choose another folder")
        return False
    there = read_json(out / PARAMETERS)
    for name, value in parameters.items():
        if there.get(name, _UNSTATED.get(name)) != value:
            raise InputError(
                f"the {what} in {out} were prepared with {name} {there.get(name)}, not {value}: choose another folder"
            )
    return True
