"""What run.json says of a run: what it is, where and by what it was trained, and what its metrics mean."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from niso.config import Hardware, flat
from niso.experiments import EXPERIMENTS
from niso.experiments.known import known
from niso.experiments.settings import Settings
from niso.training.environment import command_line, environment
from niso.training.run import Run, setting_of
from niso.training.speed import Way

if TYPE_CHECKING:
    from lightning_fabric import Fabric

PLACE = ("niso", "commit", "torch", "hardware", "device", "devices", *Way._fields)
"""Facts that say where and by what a run was trained."""


def write_facts(folder: Run, settings: Settings, fabric: Fabric) -> None:
    """Write what is known before training; a resumption keeps when the run was started and by which command, and, under
    "earlier", where it was trained before, and until when, if that was elsewhere."""
    facts = folder.facts
    changed = _changed(folder, facts)
    here = place(settings, fabric)
    before = {key: facts[key] for key in PLACE if key in facts}
    moved = any(here[key] != before[key] for key in before)
    new = {
        **origin(settings),
        **here,
        "started": facts.get("started", here["started"]),
        **({"earlier": [*facts.get("earlier", []), {**before, "until": here["started"]}]} if moved else {}),
        **({"changed": changed} if changed else {}),
        "summary": _summary(settings),
        **meaning(settings),
        "command": facts.get("command", command_line()),
        "settings": folder.determining,
    }
    folder.write("facts", {**facts, **new})


def place(settings: Settings, fabric: Fabric) -> dict[str, Any]:
    """Where and by what a command computes, and when it began: `PLACE` and more."""
    return {
        **ways(settings.hardware),
        **environment(fabric.device),
        "devices": fabric.world_size,
        "device": fabric.device.type,
    }


def ways(hardware: Hardware) -> dict[str, Any]:
    """How steps are computed."""
    return {name: getattr(hardware, name) for name in Way._fields}


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
    """The lengths that phases were trained towards, and the parts of batches, before config.yaml asked for others.

    Their schedules, and losses that compare examples, were not those of a run that had these from the start."""
    changed = dict[str, list[Any]](facts.get("changed", {}))
    trained, asked = (dict(flat(values)) for values in (facts.get("settings", {}), folder.determining))
    for file in folder.checkpoints:
        for setting in ("steps", "cosine_steps", "accumulation"):
            name = f"{setting_of(file.stem)}.{setting}"
            before, now = (values.get(f"config.{name}") for values in (trained, asked))
            if trained and before != now:
                changed[name] = [*changed.get(name, []), before]
    return changed
