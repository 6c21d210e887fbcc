"""Adds a trained model to those that come with niso: a folder of niso/hub/models, and no code.

A model takes at most 2 MB, and all together 12 MB. Where single precision takes more, networks are stored in half
precision, and the record is of the run evaluated again with these weights, which needs the run's data.

Run: python -m tools.bundle RUN NAME "what it can do, and what to expect"
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path

import torch

import niso
from niso.errors import InputError
from niso.experiments.saved import halved
from niso.files.json import write_json
from niso.files.writing import write_atomically
from niso.fitted import Fitted
from niso.hub import bundled
from niso.hub.card import CARD, card
from niso.runs import runner
from niso.runs.record import record_of
from niso.training import checkpoint
from niso.training.run import Run

LARGEST, LARGEST_TOGETHER = 2_000_000, 12_000_000
"""Bytes."""


def bundle(run: Path, name: str, about: str, models: Path = bundled.MODELS) -> Path:
    """Add the model of a finished run, in place of one of the same name; its folder.

    Raises:
        InputError: the run is not finished, or the model is too large.
    """
    with tempfile.TemporaryDirectory(prefix="niso-") as place:
        folder = saved(run, Path(place) / name, about)
        if size(folder) > LARGEST:
            rounded = rounded_run(run, Path(place) / "run")
            shutil.rmtree(folder)
            folder = saved(rounded, folder, about, half=True)
        others = sum(size(other) for other in models.iterdir() if other.is_dir() and other.name != name)
        if size(folder) > LARGEST or others + size(folder) > LARGEST_TOGETHER:
            raise InputError(
                f"{name} would take {size(folder):,} bytes, beside {others:,} of others: train a smaller one"
            )
        shutil.rmtree(models / name, ignore_errors=True)
        return Path(shutil.copytree(folder, models / name))


def saved(run: Path, folder: Path, about: str, half: bool = False) -> Path:
    """The model of a run, saved with its record and its card."""
    fitted: Fitted = niso.load(run)
    fitted.save(folder, half)
    write_json(folder / bundled.RECORD, record_of(Run.open(run)))
    words = folder.name, folder.name, about, fitted.settings, fitted.facts, fitted.metrics
    write_atomically(folder / CARD, card(*words, license="apache-2.0", record=True).encode())
    return folder


def rounded_run(run: Path, folder: Path) -> Path:
    """A copy of a run whose networks are rounded to half precision, evaluated again."""
    shutil.copytree(run, folder)
    for path in (folder / "checkpoints").glob("*.safetensors"):
        tensors, facts = checkpoint.load(path)
        changed = {
            key: halved(key, value).to(value.dtype) for key, value in tensors.items() if key.startswith("model.")
        }
        checkpoint.save(path, {**tensors, **changed}, facts)
    before = Run.open(run).metrics
    after = runner.evaluate(folder)
    for key, value in after.items():
        if value != before.get(key):
            was = f"{before[key]:.6g}" if key in before else "—"
            print(f"{key}: {was}, in half precision {value:.6g}")
    return folder


def size(folder: Path) -> int:
    """Bytes of the files of a folder."""
    return sum(file.stat().st_size for file in folder.iterdir())


if __name__ == "__main__":
    torch.set_num_threads(1)
    print(bundle(Path(sys.argv[1]), sys.argv[2], sys.argv[3]))
