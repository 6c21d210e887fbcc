"""What comparisons read of a run: from its folder, or from the record that was kept of it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from niso.errors import InputError
from niso.report.record import read_record
from niso.report.run import Run

Kind = tuple[str, str, str]
"""Experiment, preset and method: runs that differ in none of them are seeds of one experiment."""


@dataclass(frozen=True)
class Measured:
    """A run to compare; `path` is its folder or its record's file."""

    path: Path
    kind: Kind
    seed: Any
    finished: bool
    metrics: dict[str, float]
    settings: Any
    curves: dict[str, Any] = field(default_factory=dict)
    descriptions: dict[str, Any] = field(default_factory=dict)
    targets: dict[str, Any] = field(default_factory=dict)
    pictures: list[tuple[Path, str]] = field(default_factory=list)

    @classmethod
    def open(cls, path: Path) -> Measured:
        """A run folder, or a record's file.

        Raises:
            FileNotFoundError: a folder is not that of a run, or there is none.
            InputError: a JSON file of the run, or the record, is damaged.
        """
        return cls._of_record(path) if path.is_file() else cls._of_folder(path)

    @classmethod
    def _of_folder(cls, path: Path) -> Measured:
        run = Run.open(path)
        return cls(
            path,
            run.kind,
            run.facts.get("seed"),
            run.finished,
            run.metrics,
            _comparable(yaml.safe_load(run.config)),
            _curves(run.curves, path),
            run.texts("metric_descriptions"),
            run.texts("targets"),
            run.pictures,
        )

    @classmethod
    def _of_record(cls, path: Path) -> Measured:
        record = read_record(path)
        if not isinstance(record["metrics"], Mapping):
            raise InputError(f"{path} is not a record of a run: its metrics are not an object")
        experiment, preset, method = (str(record[key]) for key in ("experiment", "preset", "method"))
        metrics = {k: float(v) for k, v in record["metrics"].items() if isinstance(v, int | float)}
        settings = _comparable(record.get("settings") or {})
        curves = _curves(record.get("curves") or {}, path)
        return cls(path, (experiment, preset, method), record["seed"], True, metrics, settings, curves)

    @property
    def name(self) -> str:
        """Name of the folder, with that of the folder around it for one of several seeds; or the file's."""
        if self.path.is_file():
            return self.path.stem
        path = self.path.resolve()
        return f"{path.parent.name}/{path.name}" if re.fullmatch(r"seed\d+", path.name) else path.name


def find_measured(path: Path) -> list[Path]:
    """What a path names: a run or a record, or all runs, or all records, that lie in the folder.

    Raises:
        InputError: it names none of them.
    """
    if path.is_file() or (path / "config.yaml").is_file():
        return [path]
    runs = [file.parent for file in path.glob("*/config.yaml")]
    found = sorted(runs, key=lambda run: (len(run.name), run.name)) or sorted(path.glob("*.json"))
    if not found:
        reason = "it has no config.yaml" if path.is_dir() else "there is no such folder"
        raise InputError(f"{path} is not a run folder: {reason}")
    return found


def grouped(runs: Iterable[Measured]) -> dict[Kind, list[Measured]]:
    """Seeds of one experiment, preset and method together, in order of appearance.

    Records of one experiment from several folders are variants of the preset: the folder's name takes its place.
    """
    measured = list(runs)
    folders: dict[str, set[Path]] = {}
    for run in measured:
        if run.path.is_file():
            folders.setdefault(run.kind[0], set()).add(run.path.parent.resolve())
    groups: dict[Kind, list[Measured]] = {}
    for run in measured:
        experiment, preset, method = run.kind
        if run.path.is_file() and len(folders[experiment]) > 1:
            preset = run.path.resolve().parent.name
        groups.setdefault((experiment, preset, method), []).append(run)
    return groups


def _comparable(settings: Any) -> Any:
    """Settings without what names the run, and the data folder without where it lies."""
    if not isinstance(settings, Mapping):
        return settings
    kept = {key: value for key, value in settings.items() if key not in ("experiment", "preset", "method", "seed")}
    if kept.get("data_dir"):
        kept["data_dir"] = Path(str(kept["data_dir"])).name
    return kept


def _curves(curves: Any, path: Path) -> dict[str, Any]:
    """Curves, checked: each has as many y as x."""
    try:
        for name, curve in dict(curves).items():
            x, y = ([float(value) for value in curve[key]] for key in ("x", "y"))
            if len(x) != len(y) or not x:
                raise ValueError(f"{len(x)} x and {len(y)} y in {name}")
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(f"the curves of {path} are damaged ({error}): run `niso evaluate` on the run again") from error
    return dict(curves)
