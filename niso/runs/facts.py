"""What run.json says of a run: what it is, where and by what it was trained, and what its metrics mean."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from niso.config import flat
from niso.experiments import EXPERIMENTS
from niso.experiments.known import known
from niso.experiments.settings import Settings
from niso.training.environment import command_line, environment
from niso.training.run import Run, setting_of

if TYPE_CHECKING:
    from lightning_fabric import Fabric

PLACE = ("commit", "torch", "hardware", "device", "devices", "precision", "started")
"""Facts that say where, when and by what a run was trained."""


def write_facts(folder: Run, settings: Settings, fabric: Fabric) -> None:
    """Write what is known before training; a resumption keeps the command that started the run, and, under "earlier",
    where it was trained before if that was elsewhere."""
    facts = folder.facts
    changed = _changed(folder, facts)
    here = environment(fabric.device) | {"devices": fabric.world_size, "device": fabric.device.type}
    here["precision"] = settings.hardware.precision
    before = {key: facts[key] for key in PLACE if key in facts}
    moved = any(here[key] != before[key] for key in before if key != "started")
    new = {
        **origin(settings),
        **here,
        **({"earlier": [*facts.get("earlier", []), before]} if moved else {}),
        **({"changed": changed} if changed else {}),
        "summary": _summary(settings),
        **meaning(settings),
        "command": facts.get("command", command_line()),
        "settings": folder.determining,
    }
    folder.write("facts", {**facts, **new})


def origin(settings: Settings) -> dict[str, Any]:
    """What exported weights say of themselves."""
    return {name: getattr(settings, name) for name in ("experiment", "preset", "method", "seed")}


def meaning(settings: Settings) -> dict[str, Any]:
    """What the metrics are, and their targets."""
    metrics = [asdict(metric) for metric in known(settings.experiment).metrics]
    return {
        "metrics": {metric.pop("key"): metric for metric in metrics},
        "targets": EXPERIMENTS.find(settings.experiment).targets.get(settings.preset, {}),
    }


def _summary(settings: Settings) -> str:
    """What the experiment does, and what the method is."""
    kind = EXPERIMENTS.find(settings.experiment)
    about = kind.about(settings.method)
    return "\n\n".join([kind.summary, *([f"{settings.method}: {about}."] if about else [])])


def _changed(folder: Run, facts: Mapping[str, Any]) -> dict[str, list[Any]]:
    """The lengths that phases were trained towards before config.yaml asked for others: their schedules were not those
    of a run that knew its length from the start."""
    changed = dict[str, list[Any]](facts.get("changed", {}))
    trained, asked = (dict(flat(values)) for values in (facts.get("settings", {}), folder.determining))
    for file in folder.checkpoints:
        for length in ("steps", "cosine_steps"):
            name = f"{setting_of(file.stem)}.{length}"
            before, now = (values.get(f"config.{name}") for values in (trained, asked))
            if trained and before != now:
                changed[name] = [*changed.get(name, []), before]
    return changed
