"""A run: training writes into it, reports read it, and checks keep finished work from being lost."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from niso.config import parse, read_yaml, to_yaml
from niso.errors import CheckpointError, InputError
from niso.files.folders import write_new
from niso.files.json import nan_for_null, parse_json, write_json
from niso.files.locks import locked
from niso.files.paths import in_shell, lacks
from niso.results import Curve, Metric
from niso.training.log import LOG, Tables, forget, is_damaged, tables

SETTINGS = "config.yaml"
WEIGHTS = "weights.safetensors"
REPORT = "report.html"
OUTPUT = "output.log"
"""What a process that trains one of several runs prints."""
SWEEP = "sweep.yaml"
"""What says which runs a folder of several has."""
RUNS = Path("runs")
"""Where run folders are by default."""
CHANGED = "its config.yaml was changed after it was finished"
KIND = ("experiment", "preset", "method")
FIGURES, CAPTIONS = "figures", "captions.json"
"""Folder of a run's pictures, and what says there what they show."""
FILES = {
    "facts": "run.json",
    "metrics": "metrics.json",
    "curves": "curves.json",
    "captions": f"{FIGURES}/{CAPTIONS}",
}
TAKEN_APART: dict[str, type[dict[str, Any] | list[Any]]] = {
    **dict.fromkeys(("metrics", "targets", "changed"), dict),
    **dict.fromkeys(("notes", "tensors"), list),
}
"""Types of the facts of which reports show the parts."""


@dataclass(frozen=True)
class Run:
    """A run folder, finished or not, or the record that was kept of one; whatever it lacks is empty.

    A folder holds `config.yaml`, `run.json` (facts), `metrics.json`, `curves.json`, `log.csv`, `tensorboard/`,
    `checkpoints/`, `weights.safetensors`, `figures/` and `report.html`. A record, see `niso.runs.record`, has settings,
    facts, metrics and curves.
    """

    path: Path
    """The folder, or the record's file."""
    record: Mapping[str, Any] | None = field(default=None, repr=False, compare=False)
    """The content of the record; None for a folder."""

    @classmethod
    def create(cls, path: Path, settings: dict[str, Any]) -> Run:
        """Start a run in a new or empty folder.

        Raises:
            InputError: the folder holds a run, finished or not, or other files, or another process works on it, or it
                cannot be written.
        """
        run = cls(path)
        if run.finished:
            raise InputError(f"{path} already holds a finished run: choose another --out, or remove it first")
        if (path / SETTINGS).exists():
            if (path / ".lock").exists():
                with locked(path):
                    pass
            raise InputError(f"{path} holds an unfinished run: continue it by {run.continuation}, or remove it first")
        write_new(path, SETTINGS, to_yaml(settings))
        return run

    @classmethod
    def open(cls, path: Path) -> Run:
        """The run in a folder.

        Raises:
            InputError: the folder is not that of a run.
        """
        if not is_run(path):
            raise _not_a_run(path)
        return cls(path)

    @classmethod
    def read(cls, path: Path) -> Run:
        """The run that a record's file tells of.

        Raises:
            InputError: the file cannot be read or is not a record.
        """
        holder = next((folder for folder in path.parents if is_run(folder)), None)
        of_a_run = f"is a file of the run {holder}: give that folder" if holder else ""
        try:
            record = parse_json(path.read_text(encoding="utf-8"))
            missing = [key for key in (*KIND, "seed", "metrics", "facts") if key not in record]
            parts = () if missing else ("metrics", "facts", "settings")
            wrong = [part for part in parts if not isinstance(record.get(part) or {}, dict)]
        except OSError as error:
            raise InputError(f"cannot read {path}: {error.strerror or error}") from error
        except (ValueError, TypeError) as error:
            if of_a_run:
                raise InputError(f"{path} {of_a_run}") from error
            brief = "it is not text" if isinstance(error, UnicodeDecodeError) else error
            raise InputError(f"cannot read record {path}, which must be JSON ({brief}): give a run folder") from error
        if missing or wrong:
            problem = f"it has no {', '.join(missing)}" if missing else f"its {wrong[0]} are not an object"
            raise InputError(f"{path} {of_a_run or f'is not a record of a run: {problem}'}")
        return cls(path, record)

    @classmethod
    def find(cls, *paths: Path) -> list[Run]:
        """The runs that paths name, each once: run folders, records, or all runs, or else all records, in a folder.

        Raises:
            InputError: a path names none, or a record is damaged.
        """
        found = dict[Path, Run]()
        for path in paths:
            files = [path] if path.is_file() else sorted(path.glob("*.json"))
            runs = [cls(folder) for folder in run_folders(path)] or [cls.read(file) for file in files]
            if not runs:
                raise _not_a_run(path)
            found |= {run.path.resolve(): run for run in runs}
        return list(found.values())

    def withdraw(self, unlock: Callable[[], object] = lambda: None) -> None:
        """Remove a run that could not begin; nothing happens once it has been training. What cannot be removed stays.

        Args:
            unlock: gives up the caller's lock of the folder. Windows removes no file that is open.
        """
        if (self.path / LOG).exists():
            return
        with contextlib.suppress(OSError):
            for name in (SETTINGS, FILES["facts"], OUTPUT):
                (self.path / name).unlink(missing_ok=True)
        unlock()
        with contextlib.suppress(OSError):  # another process may have locked it by now
            (self.path / ".lock").unlink(missing_ok=True)
        remove_empty(self.path)

    def checkpoint(self, phase: str) -> Path:
        """Where the checkpoint of a phase is or will be."""
        return self.path / "checkpoints" / f"{phase}.safetensors"

    @property
    def checkpoints(self) -> list[Path]:
        """Those of all phases that have one."""
        return sorted((self.path / "checkpoints").glob("*.safetensors"))

    @property
    def determining(self) -> dict[str, Any]:
        """The settings that determine the results."""
        return {key: value for key, value in self.settings.items() if key != "hardware"}

    @property
    def up_to_date(self) -> bool:
        """Whether its settings are those that it was finished with; records do not say."""
        return self.facts.get("settings", self.determining) == self.determining

    @property
    def settings_of_results(self) -> dict[str, Any]:
        """The settings that a finished run was trained with, whatever config.yaml says now."""
        settings = self.settings | ({} if self.up_to_date or not self.finished else self.facts["settings"])
        hardware, precision = settings.get("hardware"), self.facts.get("precision")
        if precision and isinstance(hardware, dict):
            settings["hardware"] = {**hardware, "precision": precision}
        return settings

    @property
    def complete(self) -> bool:
        """Whether it is finished, as config.yaml asks for now, and has the checkpoints of all of its phases."""
        return self.finished and self.up_to_date and all(self.checkpoint(phase).exists() for phase in self.log)

    def forget_results(self) -> None:
        """Remove what says that the run is finished: its metrics, and the report of them."""
        for name in (FILES["metrics"], REPORT):
            (self.path / name).unlink(missing_ok=True)

    def forget_phases(self, kept: Collection[str]) -> None:
        """Remove the checkpoints of all other phases, and what the log and TensorBoard have of them."""
        for file in self.checkpoints:
            if file.stem not in kept:
                file.unlink()
        forget(self.path, kept)

    def write(self, part: str, values: Mapping[str, Any]) -> None:
        """Write one of `FILES`, in one step."""
        write_json(self.path / FILES[part], values)

    @cached_property
    def settings(self) -> dict[str, Any]:
        """The content of config.yaml; of a record the same."""
        if self.record is None:
            return read_yaml(self.path / SETTINGS)
        return {key: self.record[key] for key in (*KIND, "seed")} | (self.record.get("settings") or {})

    @property
    def kind(self) -> tuple[str, str, str]:
        """Experiment, preset and method."""
        experiment, preset, method = (str(self.settings.get(key, "?")) for key in KIND)
        return experiment, preset, method

    @property
    def seed(self) -> Any:
        """The seed, or None where there is none."""
        return self.settings.get("seed")

    @property
    def title(self) -> str:
        """Experiment, preset, method and seed."""
        words = [str(self.settings[key]) for key in KIND if self.settings.get(key)]
        return " · ".join([*words, *([] if self.seed is None else [f"seed {self.seed}"])]) if words else self.name

    @property
    def name(self) -> str:
        """Name of the folder, with that of the folder around it for one of several seeds; or that of the record."""
        if self.record is not None:
            return self.path.stem
        path = self.path.resolve()
        return f"{path.parent.name}/{path.name}" if re.fullmatch(r"seed\d+", path.name) else path.name

    @property
    def finished(self) -> bool:
        """Whether there are results."""
        return self.record is not None or (self.path / FILES["metrics"]).is_file()

    def steps_of(self, phase: str) -> int | None:
        """Steps that the settings ask for in a phase; None where they do not say."""
        config: Any = self.settings.get("config")
        for name in (setting_of(phase), "steps"):
            config = config.get(name) if isinstance(config, dict) else None
        return config if isinstance(config, int) else None

    @property
    def standing(self) -> str:
        """What a run lacks: where an unfinished one stands and how it goes on, or that a finished one was changed."""
        if self.finished:
            return "" if self.up_to_date else f"{self.path}: {CHANGED}: its results are of the settings before"
        try:
            reached = self._reached()
        except (CheckpointError, OSError) as error:  # of which training does not go on
            return f"{self.path} is not finished: {error}"
        return f"{self.path} is not finished: {reached}; {self.continuation} goes on"

    def _reached(self) -> str:
        """The step from which training goes on, in words: that of the checkpoint, whatever the log has beyond it."""
        from niso.training.checkpoint import step_of  # torch is slow to import

        words = "nothing is trained yet"
        for phase in dict.fromkeys([*self.log, *(file.stem for file in self.checkpoints)]):
            reached, steps = step_of(self.checkpoint(phase)), self.steps_of(phase)
            words = f"{phase} stands at step {reached}" + (f" of {steps}" if steps else "")
            if reached < (steps or 1):
                break
        return words

    @property
    def continuation(self) -> str:
        """The call that goes on with a run that is not finished: a program's own, where it gave the data."""
        of_program = str(self.facts.get("command", "")).startswith("niso.fit")
        return "the same call of niso.fit" if of_program else f"`niso resume {in_shell(self.path)}`"

    @property
    def facts(self) -> dict[str, Any]:
        """Versions, commit, hardware, times, what the metrics are.

        Raises:
            InputError: run.json, or the record, is damaged.
        """
        facts = self._read("facts")
        for name, kind in TAKEN_APART.items():
            if not isinstance(facts.get(name) or kind(), kind):
                what = "an object" if kind is dict else "a list"
                raise InputError(f"{self._source('facts')}: {name} must be {what}: {self._remedy('facts')}")
        return facts

    @property
    def metrics(self) -> dict[str, int | float]:
        """Values of a finished run by the keys of its metrics; NaN for what JSON has no number for.

        Raises:
            InputError: the file is damaged, or a value is no number or too large for one.
        """
        metrics = {key: nan_for_null(value) for key, value in self._read("metrics").items()}
        for key, value in metrics.items():
            if type(value) not in (int, float):  # true is none
                problem = f"{key} must be a number, not {value!r}"
                raise InputError(f"{self._source('metrics')}: {problem}: {self._remedy('metrics')}")
            try:
                float(value)
            except OverflowError as error:
                raise InputError(f"{self._source('metrics')}: {key} is too large: {self._remedy('metrics')}") from error
        return metrics

    @property
    def described(self) -> dict[str, Metric]:
        """What its metrics are, where that is kept, as in a run's folder. Errors as of `facts`."""
        told = self.facts.get("metrics") or {}
        source = self._source("facts")
        named = {key: {**values, "key": key} if isinstance(values, dict) else values for key, values in told.items()}
        return {key: parse(Metric, values, f"{source}: {key}") for key, values in named.items()}

    @property
    def curves(self) -> dict[str, Curve]:
        """Curves of a finished run by name.

        Raises:
            InputError: one does not have as many y as x.
        """
        curves = self._read("curves")
        try:
            for name, curve in curves.items():
                curve["y"] = [nan_for_null(value) for value in curve["y"]]
                x, y = ([float(value) for value in curve[key]] for key in ("x", "y"))
                if len(x) != len(y) or not x:
                    raise ValueError(f"{len(x)} x and {len(y)} y in {name}")
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise InputError(f"the curves of {self.path} are damaged ({error}): run `niso evaluate` again") from error
        return curves

    @property
    def pictures(self) -> list[tuple[Path, str]]:
        """Files and captions, in reading order; those without a caption come last. A file may be missing."""
        folder = self.path / FIGURES
        captions = {folder / f"{name}.png": str(text) for name, text in self._read("captions").items()}
        others = {file: file.stem for file in sorted(folder.glob("*.png")) if file not in captions}
        return list({**captions, **others}.items())

    @property
    def log(self) -> Tables:
        """What log.csv holds, see `niso.training.log.tables`."""
        return tables(self.path / LOG)

    @property
    def log_damage(self) -> str:
        """That log.csv is damaged, and what to do, in one line; empty where it is whole, or is not there."""
        if not is_damaged(self.path / LOG):
            return ""
        again = f"restore it from a copy, then run `niso report {in_shell(self.path)}`"
        return f"{self.path / LOG} is damaged, and what it cannot tell is missing from the curves of training: {again}"

    def _read(self, part: str) -> dict[str, Any]:
        """The content of one of `FILES`, or that part of the record; empty where it is missing."""
        file = self._source(part)
        if self.record is not None:
            content = self.record.get(part) or {}
        else:
            try:
                content = parse_json(file.read_text(encoding="utf-8")) if file.is_file() else {}
            except (OSError, ValueError) as error:
                raise InputError(f"cannot read {file} ({error}): {self._remedy(part)}") from error
        if not isinstance(content, dict):
            raise InputError(f"{file}: {part} must be an object, not {type(content).__name__}: {self._remedy(part)}")
        return dict(content)

    def _source(self, part: str) -> Path:
        """The file of one of `FILES`, or the record's."""
        return self.path / FILES[part] if self.record is None else self.path

    def _remedy(self, part: str) -> str:
        return (
            "restore it from a copy, or start a new run"
            if part == "facts"
            else f"run `niso evaluate {in_shell(self.path)}`"
        )


def setting_of(phase: str) -> str:
    """The setting that holds the optimisation of a phase."""
    return "training" if phase == "pretrain" else phase


def is_run(path: Path) -> bool:
    """Whether a folder is that of one run."""
    return (path / SETTINGS).is_file()


def run_folders(path: Path) -> list[Path]:
    """The folder itself if it is that of a run, else the run folders in it, seed2 before seed10, then those of each
    folder of several runs in it."""
    if is_run(path):
        return [path]
    several = sorted(file.parent for file in path.glob(f"*/{SWEEP}"))
    folders = (file.parent for file in path.glob(f"*/{SETTINGS}"))
    return [
        *sorted(folders, key=lambda folder: (len(folder.name), folder.name)),
        *(folder for sweep in several for folder in run_folders(sweep)),
    ]


def is_sweep(path: Path) -> bool:
    """Whether a folder is one of several runs."""
    return (path / SWEEP).is_file()


def remove_empty(folder: Path) -> None:
    """Remove a folder of one or more runs that could not begin, and `RUNS` around it; neither where it is not empty."""
    with contextlib.suppress(OSError):  # not empty
        folder.rmdir()
        if folder.parent == RUNS:
            RUNS.rmdir()


def _not_a_run(path: Path) -> InputError:
    return InputError(f"{path} is not a run folder: {lacks(path, SETTINGS)}")
