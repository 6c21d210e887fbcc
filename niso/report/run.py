"""A run folder as reports read it: whatever parts are there, an unfinished run's too."""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from niso.errors import InputError


@dataclass(frozen=True)
class Run:
    """What a run folder holds; every part that is missing is empty."""

    path: Path

    @classmethod
    def open(cls, path: Path) -> Run:
        """A run to report on.

        Raises:
            FileNotFoundError: there is no such folder, or it is not that of a run.
        """
        if not path.is_dir():
            raise FileNotFoundError(f"{path} is not a run folder: there is no such folder")
        if not (path / "config.yaml").is_file():
            raise FileNotFoundError(f"{path} is not a run folder: it has no config.yaml")
        return cls(path)

    @property
    def config(self) -> str:
        return (self.path / "config.yaml").read_text(encoding="utf-8")

    @property
    def finished(self) -> bool:
        return (self.path / "metrics.json").is_file()

    @cached_property
    def metrics(self) -> dict[str, float]:
        """The numbers of metrics.json."""
        values = self._json("metrics.json")
        return {key: float(value) for key, value in values.items() if isinstance(value, int | float)}

    @cached_property
    def facts(self) -> dict[str, Any]:
        """run.json, and what metrics.json holds besides numbers."""
        remarks = {k: v for k, v in self._json("metrics.json").items() if not isinstance(v, int | float)}
        return {**self._json("run.json"), **remarks}

    def texts(self, key: str) -> dict[str, Any]:
        """A mapping among the facts, e.g. "metric_descriptions"; empty where it is missing."""
        value = self.facts.get(key)
        return dict(value) if isinstance(value, Mapping) else {}

    @property
    def curves(self) -> dict[str, Any]:
        """The curves of curves.json by name."""
        return self._json("curves.json")

    @property
    def kind(self) -> tuple[str, str, str]:
        """Experiment, preset and method."""
        experiment, preset, method = (str(self.facts.get(key, "?")) for key in ("experiment", "preset", "method"))
        return experiment, preset, method

    @property
    def title(self) -> str:
        words = [str(self.facts[key]) for key in ("experiment", "preset", "method") if self.facts.get(key)]
        seed = self.facts.get("seed")
        return " · ".join([*words, *([] if seed is None else [f"seed {seed}"])]) or self.path.resolve().name

    @property
    def pictures(self) -> list[tuple[Path, str]]:
        """Files and captions, in reading order; those without a caption come last. A file may be missing."""
        folder = self.path / "figures"
        captions = {folder / f"{name}.png": str(text) for name, text in self._json("figures/captions.json").items()}
        others = {file: file.stem for file in sorted(folder.glob("*.png")) if file not in captions}
        return list({**captions, **others}.items())

    @cached_property
    def log(self) -> dict[str, dict[str, np.ndarray]]:
        """log.csv as phase → column → numbers. A missing number is NaN; a line cut off is left out."""
        file = self.path / "log.csv"
        phases: dict[str, list[dict[str, float]]] = {}
        if file.is_file():
            with open(file, newline="", encoding="utf-8", errors="replace") as lines:
                for line in csv.DictReader(lines):
                    phase = line.pop("phase", None) or "training"
                    row = {name: _number(text) for name, text in line.items() if name and isinstance(text, str)}
                    if len(row) == len(line) and math.isfinite(row.get("step", math.nan)):
                        phases.setdefault(phase, []).append(row)
        return {phase: _columns(rows) for phase, rows in phases.items()}

    def _json(self, name: str) -> dict[str, Any]:
        file = self.path / name
        if not file.is_file():
            return {}
        try:
            content = json.loads(file.read_text(encoding="utf-8"))
        except ValueError as error:
            raise InputError(f"{file} is not valid JSON ({error}): run `niso evaluate {self.path}`") from error
        if not isinstance(content, dict):
            raise InputError(
                f"{file} must hold an object, not {type(content).__name__}: run `niso evaluate {self.path}`"
            )
        return content


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan


def _columns(rows: list[dict[str, float]]) -> dict[str, np.ndarray]:
    """The columns that have any number in this phase; terms of other phases are blank in it."""
    columns = {name: np.array([row[name] for row in rows]) for name in rows[0]}
    return {name: values for name, values in columns.items() if not np.isnan(values).all()}
