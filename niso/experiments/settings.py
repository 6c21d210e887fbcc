"""Everything that determines a run: the content of its config.yaml."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from niso.config import Hardware, Strict, parse, require
from niso.errors import InputError, nearest
from niso.experiments import EXPERIMENTS
from niso.registry import Registry
from niso.training.run import SETTINGS, Run

ELSEWHERE = " (what a program registers, that program alone knows)"


@dataclass(frozen=True)
class Settings(Strict):
    """Everything that determines a run: the content of its config.yaml."""

    experiment: str
    preset: str
    config: Any
    """Settings of the experiment, in its own configuration class."""
    method: str = "niso"
    seed: int = 0
    data_dir: Path | None = None
    hardware: Hardware = field(default_factory=Hardware)

    def __post_init__(self) -> None:
        require(self, "seed")

    def dump(self) -> dict[str, Any]:
        """Plain values, in the order they are read best. Paths are absolute, so that a run is known from anywhere."""
        values = {key: _plain(value) for key, value in asdict(self).items()}
        values["config"] = values.pop("config")
        return values

    @classmethod
    def load(cls, values: dict[str, Any], source: Path) -> Settings:
        """Inverse of `dump`.

        Raises:
            InputError: an unknown experiment, preset, method or setting, or a value that is not allowed.
        """
        settings = parse(cls, values, source)
        check_known("experiment", settings.experiment, EXPERIMENTS, f"{source}: ", ELSEWHERE)
        kind = EXPERIMENTS.find(settings.experiment)
        check_known("preset", settings.preset, kind.presets, f"{source}: ")
        check_method(settings.method, kind.methods(), f"{source}: ", ELSEWHERE)
        return cls(**{**vars(settings), "config": parse(kind.config_class, settings.config, source)})

    @classmethod
    def of(cls, run: Run) -> Settings:
        """Those of a run's folder; errors as of `load`."""
        return cls.load(run.settings, run.path / SETTINGS)


def _plain(value: Any) -> Any:
    """Settings with absolute paths as text."""
    if isinstance(value, dict):
        return {key: _plain(part) for key, part in value.items()}
    return str(value.resolve()) if isinstance(value, Path) else value


def without_places(value: Any) -> Any:
    """Settings in which absolute paths are names: those of a folder of weights, of a list of sequences."""
    if isinstance(value, dict):
        return {key: without_places(part) for key, part in value.items()}
    if isinstance(value, list):
        return [without_places(part) for part in value]
    return Path(value).name if isinstance(value, str) and Path(value).is_absolute() else value


def check_method(name: object, known: Iterable[str], where: str = "", note: str = "") -> None:
    """Check that a method is a known one; one whose entry in a registry names nothing is none, and named so.

    Raises:
        InputError: see `check_known` (there is no note on a method that is registered) and `Registry.find`.
    """
    homes = [one for one in Registry.of_kind("method") if isinstance(name, str) and name in one]
    for registry in homes:
        registry.find(str(name))
    check_known("method", name, known, where, "" if homes else note)


def check_known(what: str, name: object, known: Iterable[str], where: str = "", note: str = "") -> None:
    """Check that a name is a known one.

    Raises:
        InputError: it is not; the message begins with `where`, gives the nearest that is, and ends with `note`.
    """
    choices = list(known)
    if name not in choices:
        raise InputError(f"{where}unknown {what} {name!r}{nearest(str(name), choices)}{note}")
