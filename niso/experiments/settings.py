"""Everything that determines a run: the content of its config.yaml."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from niso.config import Hardware, Strict, parse
from niso.errors import InputError, nearest
from niso.experiments import find_experiment


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
        if self.seed < 0:
            raise ValueError(f"seed must not be negative, got {self.seed}")

    def dump(self) -> dict[str, Any]:
        """Plain values, in the order they are read best."""
        values = asdict(self)
        values["data_dir"] = str(self.data_dir.resolve()) if self.data_dir else None
        values["config"] = values.pop("config")
        return values

    @classmethod
    def load(cls, values: dict[str, Any], source: Path) -> Settings:
        """Inverse of `dump`.

        Raises:
            InputError: an unknown experiment, preset, method or setting, or a value that is not allowed.
        """
        settings = parse(cls, values, source)
        kind = find_experiment(settings.experiment)
        if settings.preset not in kind.presets:
            raise InputError(f"{source}: unknown preset {settings.preset!r}{nearest(settings.preset, kind.presets)}")
        if settings.method not in kind.methods():
            raise InputError(f"{source}: unknown method {settings.method!r}{nearest(settings.method, kind.methods())}")
        config = parse(kind.config_class, settings.config, source)
        return cls(**{**vars(settings), "config": config})
