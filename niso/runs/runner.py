"""Runs an experiment in a run folder: train every phase, evaluate, draw, report. Also resumes and re-evaluates."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import torch

from niso.training import checkpoint
from niso.config import Hardware, parse
from niso.errors import InputError, nearest
from niso.experiments import find_experiment
from niso.experiments.experiment import Experiment, Phase
from niso.experiments.settings import Settings
from niso.random import step_seed
from niso.training.run import RunFolder, environment
from niso.config import Strict
from niso.training.loop import train
from niso.training.processes import make_fabric, together

def run(settings: Settings, out: Path) -> dict[str, float]:
    """Run an experiment in a new folder and return its figures.

    Raises:
        NisoError: see `RunFolder.create` and `train`.
    """
    fabric = make_fabric(settings.hardware, lambda: RunFolder.create(out, settings.dump()))
    folder = RunFolder.open(out)
    try:
        return _execute(folder, settings, fabric)
    except Exception:
        if fabric.is_global_zero:
            folder.withdraw()
        raise


def resume(path: Path) -> dict[str, float]:
    """Go on with an interrupted run; one that is finished is left as it is.

    Raises:
        NisoError: the folder is not a run's, its configuration or checkpoint is damaged, or training fails.
    """
    from niso.report import write_report  # matplotlib is slow to import

    folder = RunFolder.open(path)
    if folder.finished:
        if not (path / "report.html").exists():  # killed just before
            write_report(path)
        return folder.metrics
    settings = Settings.load(folder.settings, path / "config.yaml")
    return _execute(folder, settings, make_fabric(settings.hardware))


def evaluate(path: Path) -> dict[str, float]:
    """Evaluate the weights of a trained run again, and write its figures, pictures and report anew.

    Raises:
        InputError: a phase of the run has not been trained to its end.
        NisoError: as for `resume`.
    """
    folder = RunFolder.open(path)
    settings = Settings.load(folder.settings, path / "config.yaml")
    hardware = replace(settings.hardware, devices=1, nodes=1)
    if hardware.accelerator == "gpu":  # perhaps not this machine's
        hardware = replace(hardware, accelerator="auto")
    return _execute(folder, settings, make_fabric(hardware), training=False)


def _execute(folder: RunFolder, settings: Settings, fabric: Any, training: bool = True) -> dict[str, float]:
    with ExitStack() as stack:
        with together(fabric):
            if fabric.is_global_zero:
                stack.enter_context(folder.locked())
        return _train_and_evaluate(folder, settings, fabric, training)


def _train_and_evaluate(folder: RunFolder, settings: Settings, fabric: Any, training: bool) -> dict[str, float]:
    from niso.report import save_pictures, write_report  # matplotlib is slow to import

    kind = find_experiment(settings.experiment)
    with together(fabric):
        if fabric.is_global_zero and training:
            folder.write("run.json", {**folder.facts, **_facts(settings, kind, fabric), **_invocation(folder)})
        torch.manual_seed(step_seed(settings.seed, 0, "initialisation"))
        experiment = kind(settings.config, settings.method, settings.seed, settings.data_dir, fabric.device)
        experiment.autocast = fabric.autocast
        if fabric.is_global_zero and training and (drawn := experiment.facts()):
            folder.write("run.json", {**folder.facts, **drawn})
    totals = {"steps": 0, "seconds": 0.0}
    for phase in _built_together(experiment.phases(), fabric):
        if not training:
            _require_trained(folder, phase.name, phase.optimisation.steps)
        seconds = train(
            phase.objective,
            phase.sampler,
            phase.optimisation,
            folder,
            fabric,
            phase.name,
            settings.seed,
            settings.hardware.checkpoint_seconds,
            settings.hardware.compile,
            settings.hardware.whole_step,
        )
        totals["steps"] += phase.optimisation.steps
        totals["seconds"] += seconds
        totals[f"seconds_{phase.name}"] = seconds
        # what comes next draws the same numbers whether this phase was trained now or before an interruption
        torch.manual_seed(step_seed(settings.seed, 1, phase.name))
    if not fabric.is_global_zero:
        return {}
    checkpoint.save(folder.path / "weights.safetensors", phase.objective.state_dict(), _origin(settings))
    described = {key: value for key, value in totals.items() if key in kind.metric_descriptions}
    figures = {**experiment.evaluate(), **described}
    save_pictures(experiment.pictures(), folder.path / "figures")
    folder.write("curves.json", experiment.curves())
    for name, tensors in experiment.tensors().items():
        checkpoint.save(folder.path / f"{name}.safetensors", tensors, _origin(settings))
    folder.write("metrics.json", figures)
    write_report(folder.path)
    return figures


def _built_together(phases: Iterator[Phase], fabric: Any) -> Iterator[Phase]:
    while True:
        with together(fabric):
            phase = next(phases, None)
        if phase is None:
            return
        yield phase


def _origin(settings: Settings) -> dict[str, Any]:
    """What exported weights say of themselves."""
    return {name: getattr(settings, name) for name in ("experiment", "preset", "method", "seed")}


def _require_trained(folder: RunFolder, phase: str, steps: int) -> None:
    path = folder.checkpoint(phase)
    reached = checkpoint.load(path)[1]["step"] if path.exists() else 0
    if reached < steps:
        raise InputError(
            f"{folder.path}: phase {phase} stands at step {reached} of {steps}: "
            f"finish it by `niso resume {folder.path}`"
        )


def _facts(settings: Settings, kind: type[Experiment], fabric: Any) -> dict[str, Any]:
    return {
        "experiment": settings.experiment,
        "preset": settings.preset,
        "method": settings.method,
        "seed": settings.seed,
        "devices": fabric.world_size,
        "device": fabric.device.type,
        **environment(fabric.device),
        "summary": kind.summary,
        "metric_descriptions": kind.metric_descriptions,
        "targets": kind.targets.get(settings.preset, {}),
    }


def _invocation(folder: RunFolder) -> dict[str, Any]:
    """The command that started the run; a resumption does not replace it, and is none that starts such a run."""
    own = None if sys.argv[1:2] == ["resume"] else shlex.join(["niso", *sys.argv[1:]])
    return {"command": folder.facts.get("command", own)}
