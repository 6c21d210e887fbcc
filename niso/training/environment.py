"""Facts without which a result is worth nothing: versions, commit, hardware, date."""

from __future__ import annotations

import os
import platform
import shlex
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch

from niso.data.workers import cores
from niso.version import __version__

ROOT = Path(__file__).resolve().parents[2]
"""Of the source tree, where there is one."""
CHANGES = "+changes"
"""Ends the name of a commit from which the source tree differs."""


def environment(device: torch.device) -> dict[str, Any]:
    """Versions, commit, hardware and date of a run that computes on `device`."""
    now = datetime.now(UTC).isoformat(timespec="seconds")
    return {**machine(device), "commit": commit(), "threads": torch.get_num_threads(), "started": now}


def machine(device: torch.device) -> dict[str, Any]:
    """What the time of a computation on `device` depends on: versions and hardware."""
    return {
        "niso": __version__,
        "torch": torch.__version__,
        "python": platform.python_version(),
        "hardware": torch.cuda.get_device_name(device) if device.type == "cuda" else processor(),
        "cores": cores(),
        "instructions": torch.backends.cpu.get_cpu_capability(),
    }


@contextmanager
def called(arguments: Sequence[str]) -> Iterator[None]:
    """While inside, runs are begun by a command, `niso` with these arguments."""
    global _command  # threads begin runs, too
    _command = shlex.join(["niso", *arguments])
    try:
        yield
    finally:
        _command = None


def command_line() -> str | None:
    """The command that begins runs, to be given again; None where a program does, or one that goes on with runs."""
    return _command


_command: str | None = None


def commit(*folders: str, root: Path = ROOT) -> str | None:
    """Commit of the source tree, with `CHANGES` where niso/, or one of other folders, differs from it; None for an
    installed package."""
    if not (root / ".git").exists():
        return None
    env = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}  # of another tree
    try:
        name, changes = (
            subprocess.run(
                ["git", "-C", str(root), *arguments], capture_output=True, text=True, check=True, env=env
            ).stdout.strip()
            for arguments in (["rev-parse", "--short=12", "HEAD"], ["status", "--porcelain", "--", "niso", *folders])
        )
    except (OSError, subprocess.CalledProcessError):
        return None
    return name + (CHANGES if changes else "")


def processor() -> str:
    """Name of the processor, as the system tells it, with its family and model: of a virtual one the name says less."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    told = {name.strip(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    name = told.get("model name") or platform.processor() or platform.machine()
    numbers = ", ".join(f"{key} {told[key]}" for key in ("cpu family", "model") if key in told)
    return f"{name} ({numbers})" if numbers else name
