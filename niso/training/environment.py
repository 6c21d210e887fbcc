"""Facts without which a result is worth nothing: versions, commit, hardware, date."""

from __future__ import annotations

import os
import platform
import shlex
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch

from niso.version import __version__


def environment(device: torch.device) -> dict[str, Any]:
    """Versions, commit, hardware and date of a run that computes on `device`."""
    return {
        "niso": __version__,
        "commit": _commit(),
        "torch": torch.__version__,
        "python": platform.python_version(),
        "hardware": torch.cuda.get_device_name(device) if device.type == "cuda" else _processor(),
        "cores": os.cpu_count(),
        "instructions": torch.backends.cpu.get_cpu_capability(),
        "threads": torch.get_num_threads(),
        "started": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def command_line() -> str | None:
    """The call that started the program, to be given again; None for one that goes on with a run."""
    return None if sys.argv[1:2] == ["resume"] else shlex.join(["niso", *sys.argv[1:]])


def _commit() -> str | None:
    """Commit of the source tree, with "+changes" where niso/ differs from it; None for an installed package."""
    root = Path(__file__).resolve().parents[2]
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
    lines = info.read_text().splitlines() if info.exists() else []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()
