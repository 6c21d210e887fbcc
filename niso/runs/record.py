"""Records: settings, facts (commit, versions, hardware, date), metrics and curves of a finished run, as one small JSON
file to commit, without any path of the machine on which it ran. `Run.read` reads it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from niso.errors import InputError
from niso.experiments.settings import without_places
from niso.files.json import write_json
from niso.files.paths import in_shell
from niso.training.run import CHANGED, Run

FACTS = (
    "niso",
    "commit",
    "torch",
    "python",
    "hardware",
    "cores",
    "threads",
    "device",
    "devices",
    "started",
    "times",
    "speed",
)
WHERE_THERE_ARE = ("instructions", "precision", "earlier", "changed", "evaluated", "registered")
"""Facts of runs of this version, of those with parts of a program's own, and of those that went on elsewhere, were
trained towards another length first, or were evaluated again."""


def record_of(run: Run) -> dict[str, Any]:
    """The record of a finished run.

    Raises:
        InputError: it is a record itself, is not finished, or its settings were changed since.
    """
    if run.record is not None:
        raise InputError(f"{run.path} is not a run folder: it is a record")
    if not run.finished:
        raise InputError(f"{run.path} is not finished: {run.continuation} first, then record it")
    if not run.up_to_date:
        raise InputError(
            f"{run.path}: {CHANGED}: undo that, or `niso resume {in_shell(run.path)}` where it asks for more steps"
        )
    settings, facts = without_places(run.settings), run.facts
    preparation = (facts.get("data") or {}).get("preparation")  # of shapes, which settings do not say with --data-dir
    settings["data_dir"] = Path(settings.get("data_dir") or "").name or None
    return {
        **{key: settings.pop(key, facts.get(key)) for key in ("experiment", "preset", "method", "seed")},
        "metrics": run.metrics,
        "curves": run.curves,
        "facts": {name: facts.get(name) for name in FACTS}
        | {name: facts[name] for name in WHERE_THERE_ARE if name in facts}
        | ({"preparation": preparation} if preparation else {}),
        "settings": settings,
    }


def place_of_record(run: Run, folder: Path) -> Path:
    """Where `write_record` writes: a folder's file that is not the record of another run.

    Raises:
        InputError: it is, or as of `record_of`.
    """
    record = record_of(run)
    path = folder / "{experiment}-{preset}-{method}-seed{seed}.json".format(**record)
    if path.exists():
        old = Run.read(path)
        begun = {run.facts.get("started") for run in (old, run)}
        reasons = {
            "with other settings": old.settings.get("config") != record["settings"]["config"],
            "on other data": old.settings.get("data_dir") != record["settings"]["data_dir"],
            "that began at another time": len(begun - {None}) == 2,
        }
        for what, holds in reasons.items():
            if holds:
                raise InputError(f"{path} is the record of a run {what}: choose another folder, or remove it")
    return path


def write_record(run: Run, folder: Path, **more: str) -> Path:
    """Write `<experiment>-<preset>-<method>-seed<n>.json` of a finished run into a folder of records.

    Args:
        more: what the run itself does not know, to stand first.

    Raises:
        InputError: as of `place_of_record`.
    """
    path = place_of_record(run, folder)
    write_json(path, {**more, **record_of(run)})
    return path
