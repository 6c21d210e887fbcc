"""Trained models that come with niso: a folder of `niso/hub/models` each, which `python -m tools.bundle` adds.

A folder holds config.json and model.safetensors, see `niso.experiments.saved`, the record of the run that trained the
model, and its card.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from niso.errors import InputError, nearest
from niso.experiments import EXPERIMENTS
from niso.hub.card import CARD, about_of
from niso.training.run import Run

MODELS = Path(__file__).parent / "models"
RECORD = "record.json"


@dataclass(frozen=True)
class Bundled:
    """A model that comes with niso."""

    folder: Path

    @property
    def name(self) -> str:
        """What `niso.load` takes."""
        return self.folder.name

    @property
    def card(self) -> str:
        """The model card, in Markdown."""
        return (self.folder / CARD).read_text(encoding="utf-8")

    @property
    def about(self) -> str:
        """What it can do, and what to expect."""
        return about_of(self.card)

    @property
    def record(self) -> Run:
        """The record of the run that trained it."""
        return Run.read(self.folder / RECORD)

    @property
    def metric(self) -> str:
        """Key and value of the metric that says most of it."""
        key = EXPERIMENTS.find(self.record.kind[0]).model_metric
        return f"{key} {self.record.metrics[key]:.3g}"

    @property
    def size(self) -> int:
        """Bytes of its files."""
        return sum(file.stat().st_size for file in self.folder.iterdir())


def names() -> list[str]:
    """Names of the models that come with niso."""
    return sorted(folder.name for folder in MODELS.iterdir() if (folder / CARD).is_file())


def find(name: str) -> Bundled:
    """The model of this name.

    Raises:
        InputError: there is none; the message names the nearest.
    """
    if name not in names():
        raise InputError(f"no model {name!r} comes with niso{nearest(name, names())}")
    return Bundled(MODELS / name)
