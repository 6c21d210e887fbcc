"""Records: all that makes the figures of a finished run worth something, as one small JSON file to commit.

A record has the run's settings, its facts (commit, versions, hardware, date), its metrics and curves, but no path of
the machine that it ran on.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from niso.errors import InputError
from niso.training.checkpoint import write_atomically
from niso.training.run import RunFolder

FACTS = ("niso", "commit", "torch", "python", "hardware", "cores", "threads", "device", "devices", "started")


def write_record(run: Path, folder: Path) -> Path:
    """Write `<experiment>-<preset>-<method>-seed<n>.json` of a finished run into a folder of records.

    Raises:
        InputError: the run is not finished, or the folder has a record of that name with another content of settings.
    """
    source = RunFolder.open(run)
    if not source.finished:
        raise InputError(f"{run} is not finished: `niso resume {run}` first, then record it")
    settings = source.settings
    settings["data_dir"] = Path(settings["data_dir"]).name if settings.get("data_dir") else None
    facts = source.facts
    record = {
        "experiment": settings.pop("experiment"),
        "preset": settings.pop("preset"),
        "method": settings.pop("method"),
        "seed": settings.pop("seed"),
        "metrics": source.metrics,
        "curves": source.curves,
        "facts": {name: facts.get(name) for name in FACTS},
        "settings": settings,
    }
    path = folder / "{experiment}-{preset}-{method}-seed{seed}.json".format(**record)
    if path.exists() and read_record(path)["settings"]["config"] != settings["config"]:
        raise InputError(f"{path} is the record of a run with other settings: choose another folder, or remove it")
    write_atomically(path, (json.dumps(record, indent=2, ensure_ascii=False) + "\n").encode())
    return path


def read_record(path: Path) -> dict[str, Any]:
    """A record.

    Raises:
        InputError: the file cannot be read or is not a record.
    """
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
        missing = [key for key in ("experiment", "preset", "method", "seed", "metrics", "facts") if key not in record]
    except (OSError, ValueError, TypeError) as error:
        raise InputError(f"cannot read record {path}: {error}") from error
    if missing:
        raise InputError(f"{path} is not a record of a run: it has no {', '.join(missing)}")
    return dict(record)
