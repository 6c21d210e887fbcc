"""The folder of a run: what is in it, and the checks that keep finished work from being lost."""

from __future__ import annotations

import contextlib
import json
import os
import platform
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch

from niso.config import read_yaml, to_yaml
from niso.errors import InputError
from niso.files import locked
from niso.training.checkpoint import write_atomically


@dataclass(frozen=True)
class RunFolder:
    """`config.yaml`, `run.json` (facts), `metrics.json`, `curves.json`, `log.csv`, `tensorboard/`, `checkpoints/`,
    `weights.safetensors`, `figures/` and `report.html` of one run."""

    path: Path

    @classmethod
    def create(cls, path: Path, settings: dict[str, Any]) -> RunFolder:
        """Start a run in a new or empty folder.

        Raises:
            InputError: the folder holds a run, finished or not, or other files, or cannot be written.
        """
        run = cls(path)
        if run.finished:
            raise InputError(f"{path} already holds a finished run: choose another --out, or remove it first")
        if (path / "config.yaml").exists():
            raise InputError(
                f"{path} holds an unfinished run: go on with it by `niso resume {path}`, or remove it first"
            )
        if path.exists() and (not path.is_dir() or any(path.iterdir())):
            raise InputError(f"{path} exists and is not an empty folder: choose another --out")
        try:
            write_atomically(path / "config.yaml", to_yaml(settings).encode())
        except OSError as error:
            raise InputError(f"cannot write to {path} ({error.strerror}): choose another --out") from error
        return run

    @classmethod
    def open(cls, path: Path) -> RunFolder:
        """An existing run.

        Raises:
            InputError: the folder is not that of a run.
        """
        if not (path / "config.yaml").is_file():
            reason = "it has no config.yaml" if path.is_dir() else "there is no such folder"
            raise InputError(f"{path} is not a run folder: {reason}")
        return cls(path)

    def withdraw(self) -> None:
        """Take back a run that could not begin; nothing happens once it has been training."""
        if not (self.path / "log.csv").exists():
            for name in ("config.yaml", "run.json", ".lock"):
                (self.path / name).unlink(missing_ok=True)
            with contextlib.suppress(OSError):  # not empty
                self.path.rmdir()

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep other processes from working on the run; a lock ends with its process, however that ends.

        Raises:
            InputError: another process works on the run.
        """
        with locked(self.path):
            yield

    @property
    def settings(self) -> dict[str, Any]:
        return read_yaml(self.path / "config.yaml")

    @property
    def finished(self) -> bool:
        return (self.path / "metrics.json").is_file()

    @property
    def metrics(self) -> dict[str, float]:
        """Final figures of a finished run."""
        return self._read("metrics.json")

    @property
    def curves(self) -> dict[str, Any]:
        """Curves of a finished run by name, see `Experiment.curves`."""
        return self._read("curves.json") if (self.path / "curves.json").is_file() else {}

    @property
    def facts(self) -> dict[str, Any]:
        """Facts of the run: versions, commit, hardware, times."""
        return self._read("run.json") if (self.path / "run.json").is_file() else {}

    def checkpoint(self, phase: str) -> Path:
        return self.path / "checkpoints" / f"{phase}.safetensors"

    def write(self, name: str, values: dict[str, Any]) -> None:
        """Write a JSON file of the run, atomically."""
        write_atomically(self.path / name, (json.dumps(values, indent=2, ensure_ascii=False) + "\n").encode())

    def _read(self, name: str) -> dict[str, Any]:
        try:
            return json.loads((self.path / name).read_text())
        except (OSError, ValueError) as error:
            remedy = f"run `niso evaluate {self.path}`" if name == "metrics.json" else "remove it"
            raise InputError(f"cannot read {self.path / name} ({error}): {remedy}") from error


def environment(device: torch.device) -> dict[str, Any]:
    """Facts that a figure is worth nothing without: versions, commit, hardware, date."""
    import niso

    return {
        "niso": niso.__version__,
        "commit": _commit(),
        "torch": torch.__version__,
        "python": platform.python_version(),
        "hardware": torch.cuda.get_device_name(device) if device.type == "cuda" else _processor(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "started": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def _commit() -> str | None:
    """Commit of the source tree that runs, "+changes" where it differs; None for an installed package."""
    root = Path(__file__).resolve().parent.parent
    if not (root / ".git").exists():
        return None
    try:
        commit, changes = (
            subprocess.run(
                ["git", "-C", str(root), *arguments], capture_output=True, text=True, check=True
            ).stdout.strip()
            for arguments in (["rev-parse", "--short=12", "HEAD"], ["status", "--porcelain", "--", "niso"])
        )
    except (OSError, subprocess.CalledProcessError):
        return None
    return commit + ("+changes" if changes else "")


def _processor() -> str:
    """Name of the processor, as the system tells it."""
    info = Path("/proc/cpuinfo")
    if info.exists():
        names = [
            line.split(":", 1)[1].strip() for line in info.read_text().splitlines() if line.startswith("model name")
        ]
        if names:
            return names[0]
    return platform.processor() or platform.machine()
