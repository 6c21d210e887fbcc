"""Runs an experiment in a run folder: train every phase, evaluate, draw, report. Also resumes and re-evaluates."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from niso.collective import together
from niso.config import to_yaml
from niso.errors import InputError, Interrupted, TrainingError, first_line
from niso.experiments import EXPERIMENTS
from niso.experiments.experiment import Experiment, Phase
from niso.experiments.known import known
from niso.experiments.registered import FACT, check_reads, registered
from niso.experiments.settings import Settings
from niso.files.locks import locked
from niso.files.writing import write_atomically
from niso.messages import say
from niso.random import step_seed
from niso.results import Result
from niso.runs.facts import PLACE, meaning, origin, place, ways, write_facts
from niso.runs.unchanged import check_split, settings_as_asked, settings_as_trained
from niso.training import checkpoint
from niso.training.loop import train
from niso.training.processes import make_fabric, network_precision
from niso.training.progress import stage
from niso.training.run import FIGURES, REPORT, SETTINGS, WEIGHTS, Run, is_run
from niso.training.speed import choose, half_slower
from niso.training.times import Times

if TYPE_CHECKING:
    from lightning_fabric import Fabric


Make = Callable[..., Experiment]
"""What makes an experiment of the arguments of its class."""


def run(
    settings: Settings,
    out: Path,
    began: float | None = None,
    make: Make | None = None,
    tune: bool = True,
    report: bool = True,
    command: str | None = None,
) -> dict[str, float]:
    """Run an experiment in a new folder and return its metrics.

    Args:
        began: when the command started, by `time.monotonic`; now by default.
        make: makes the experiment; by default its class.
        tune: see `make_fabric`.
        report: draw figures and write the report.
        command: the call that made the run, for its record; by default that of this program. Where an unfinished run
            of the same call is in the folder, it goes on.

    Raises:
        NisoError: see `Run.create` and `train`.
    """
    began = time.monotonic() if began is None else began
    old = Run.open(out) if command and is_run(out) else None
    ended = old is not None and old.finished and ((out / REPORT).exists() or not report)  # not killed just before
    # one without facts was killed when it began
    again = old is not None and not ended and (not old.facts or old.facts.get("command") == command)
    trained = settings_as_asked(old, settings) if old and again else settings
    fabric = make_fabric(trained.hardware, None if again else lambda: Run.create(out, settings.dump()), tune)
    started = Run.open(out)
    if command and fabric.is_global_zero and not started.facts:
        started.write("facts", {"command": command})
    return _execute(started, trained, fabric, began, make, report, new=not again, tune=tune)


def resume(path: Path, began: float | None = None) -> dict[str, float]:
    """Continue an interrupted run, or a finished one whose config.yaml now asks for more steps or that lost a
    checkpoint.

    Args:
        began: as in `run`.

    Raises:
        NisoError: the folder is not a run's, its configuration or checkpoint is damaged, the configuration asks for
            fewer steps or another model than were trained, or training fails.
    """
    began = time.monotonic() if began is None else began
    from niso.report import write_report  # matplotlib is slow to import

    old = Run.open(path)
    if old.complete:
        if not (path / REPORT).exists():  # killed just before
            write_report(old, known(old.kind[0]))
        return old.metrics
    settings = settings_as_trained(old)
    return _execute(old, settings, make_fabric(settings.hardware), began)


def evaluate(path: Path) -> dict[str, float]:
    """Evaluate the weights of a trained run again, and write its metrics, pictures and report anew.

    Raises:
        InputError: a phase of the run has not been trained to its end.
        NisoError: as for `resume`.
    """
    old = Run.open(path)
    settings = settings_as_trained(old)
    return _execute(old, settings, make_fabric(settings.hardware.alone()))


def _execute(
    folder: Run,
    settings: Settings,
    fabric: Fabric,
    began: float | None = None,
    make: Make | None = None,
    report: bool = True,
    new: bool = False,
    tune: bool = True,
) -> dict[str, float]:
    """Train and evaluate; without `began`, the time when that started, evaluate only. A `new` run that cannot begin
    leaves no folder; `tune` is that of `make_fabric`."""
    with ExitStack() as stack:
        with together():
            if fabric.is_global_zero:
                stack.enter_context(locked(folder.path))
        try:
            execution = _Execution(folder, settings, fabric, began, tune)
            experiment = execution.build(make)
            objective = execution.train(experiment)
            if not fabric.is_global_zero:
                return {}
            checkpoint.save(folder.path / WEIGHTS, experiment.weights(objective), origin(settings))
            execution.times.end("data")
            return execution.evaluate(experiment, report)
        except Interrupted:
            if fabric.is_global_zero:
                execution.times.end("training")
                folder.write("facts", {**folder.facts, "times": execution.times.seconds})
            raise
        except Exception:
            if new and fabric.is_global_zero:
                folder.withdraw(stack.close)
            raise


class _Execution:
    """A run under way; arguments are those of `_execute`."""

    def __init__(self, folder: Run, settings: Settings, fabric: Fabric, began: float | None, tune: bool) -> None:
        self.folder, self.settings, self.fabric, self.began = folder, settings, fabric, began
        self.training, self.tune = began is not None, tune
        self.before: Mapping[str, float] = folder.facts.get("times", {}) if self.training else {}
        """Seconds of the parts of commands before this one."""
        self.times = Times(began, self.before)
        self.times.end("start")
        self.cost: dict[str, float] = {"steps": 0, "seconds": 0.0}
        """Metrics of the training."""
        self.earlier = 0.0
        """Seconds of training that commands before this one did, also those that were killed."""

    def build(self, make: Make | None) -> Experiment:
        """The experiment, with its data and networks; the facts of a training that begins are written."""
        folder, settings, first = self.folder, self.settings, self.fabric.is_global_zero
        with together():
            check_reads(settings)
            begun = bool(folder.checkpoints)
            if first and begun and not folder.facts:
                lacks = f"{folder.path} has no run.json: whether its data is what it was trained on cannot be seen"
                warnings.warn(lacks, stacklevel=2)
            if first and self.training and not folder.finished:
                write_facts(folder, settings, self.fabric)
            torch.manual_seed(step_seed(settings.seed, 0, "initialisation"))
            words = settings.config, settings.method, settings.seed, settings.data_dir, self.fabric.device
            kind = make or EXPERIMENTS.find(settings.experiment)
            before = {"chosen": folder.facts["chosen"]} if begun and "chosen" in folder.facts else {}
            # the precision is that of the fabric that `train` chooses
            experiment = kind(*words, lambda: network_precision(self.fabric)(), **before)
            if first:
                _introduce(experiment, folder, settings, self.training, begun)
        return experiment

    def train(self, experiment: Experiment) -> nn.Module:
        """Train every phase to its end, or load it where nothing is to be trained; the objective of the last one."""
        folder, finished = self.folder, self.folder.finished
        trained, seen = False, list[str]()
        for phase in _built_together(iter(experiment.phases())):
            if phase.name in seen:
                raise ValueError(f"{experiment.name} has two phases {phase.name!r}: each needs a name of its own")
            seen.append(phase.name)
            steps = phase.optimisation.steps
            with together():
                reached, earlier = _reached(folder, phase, self.training)
            self.earlier += earlier
            with together():
                if self.fabric.is_global_zero and reached < steps:
                    folder.forget_phases(seen)  # those to come build on this one
                    if finished and not trained:
                        folder.forget_results()
                        write_facts(folder, self.settings, self.fabric)
            begins = reached < steps and not trained
            if begins and not reached and len(seen) == 1:
                with together():
                    experiment.try_first(phase)
            trained |= reached < steps
            self.times.end("data")
            if self.training and self.settings.hardware.speed == "auto" and "speed" not in folder.facts:
                self.settings, self.fabric = _fastest(folder, self.settings, phase, self.fabric, self.tune)
                self.times.end("speed")
            settings = self.settings
            torch.set_num_threads(settings.hardware.threads)
            if begins and (slower := half_slower(phase.objective, settings.hardware, self.fabric)):
                remedy = f"stop it, and set precision to 32-true in {folder.path / SETTINGS}"
                say(f"! products in bfloat16 take {slower:.0f} times as long as in float32 on this CPU → {remedy}")
            seconds = train(phase, folder, self.fabric, settings.seed, settings.hardware, self.times)
            self.cost["steps"] += steps
            self.cost["seconds"] += seconds
            self.cost[f"seconds_{phase.name}"] = seconds
            # what comes next draws the same numbers whether this phase was trained now or before an interruption; its
            # second step drew these, too, but chose examples by them, and what comes next makes weights
            torch.manual_seed(step_seed(settings.seed, 1, phase.name))
        if not seen:
            raise ValueError(f"{experiment.name} has no phases: `phases` must give one or more")
        return phase.objective

    def evaluate(self, experiment: Experiment, report: bool) -> dict[str, float]:
        """Metrics of a trained experiment; they and the facts of them are written, with figures and a report."""
        folder, settings = self.folder, self.settings
        took: dict[str, Any] = {"times": self.times.seconds}
        if not self.training:  # the other facts are of the training
            here = place(settings, self.fabric)
            took = {"evaluated": {key: here[key] for key in (*PLACE, "started")}}
        with stage("evaluation"):
            try:
                result = experiment.evaluate()
            except FloatingPointError as error:
                remedy = "look at the data and at networks of your own, or train by a smaller learning rate"
                problem = f"evaluation: what the trained networks give is not finite ({first_line(error)})"
                raise TrainingError(f"{problem}; their weights are kept: {remedy}") from error
        if not isinstance(result, Result):
            raise TypeError(
                f"{settings.experiment}: `evaluate` must give a niso.results.Result, not {type(result).__name__}"
            )
        self.times.end("evaluation")
        if self.began is not None:
            known_before = max(self.earlier, sum(self.before.values()))
            self.cost["seconds_wall"] = known_before + time.monotonic() - self.began
            compilation = self.times.seconds.get("compilation", 0.0)  # a part of the training's seconds
            self.times.at_least("training", self.cost["seconds"] - compilation)
        elif "seconds_wall" in folder.facts:  # the run's, not this evaluation's
            self.cost["seconds_wall"] = folder.facts["seconds_wall"]
        described = [metric.key for metric in known(settings.experiment).metrics]
        result.metrics = _numbers(settings.experiment, result.metrics, described)
        metrics: dict[str, float] = {}  # in the order of their descriptions, those of the experiment first
        for part in (result.metrics, self.cost):
            metrics |= {key: part[key] for key in described if key in part} | part
        if report:
            from niso.report import save_pictures, write_report  # matplotlib is slow to import

            try:
                save_pictures(experiment.draw(result), folder.path / FIGURES)
            except OSError:  # of the disk: the run is finished when all of it is there
                raise
            except Exception:  # of a figure: what was measured is kept
                _keep(folder, settings, result, metrics, took)
                raise
            self.times.end("pictures")
        _keep(folder, settings, result, metrics, took)
        if report:
            write_report(folder, known(settings.experiment))
        return metrics


def _numbers(experiment: str, measured: Mapping[str, Any], described: Sequence[str]) -> dict[str, float]:
    """Metrics as numbers; a line names those that the experiment does not describe.

    Raises:
        TypeError: one is no number.
    """
    metrics = dict[str, float]()
    for key, value in measured.items():
        try:
            metrics[key] = value if type(value) in (int, float) else float(value)
        except (TypeError, ValueError, RuntimeError) as error:  # the last of tensors
            raise TypeError(f"metric {key!r} is {value!r}: give a number") from error
    if others := [key for key in metrics if key not in described]:
        missing = (
            f"{experiment} does not describe {', '.join(others)}: reports show them without a word of what they are"
        )
        say(f"{missing}; add a Metric for each to `metrics` of the experiment")
    return metrics


def _introduce(experiment: Experiment, folder: Run, settings: Settings, training: bool, begun: bool) -> None:
    """Say what was chosen, and record the facts of the data; InputError where these have changed since."""
    if training and experiment.announcement:
        say(f"{experiment.name}: {experiment.announcement}")
    drawn = experiment.facts()
    check_split(folder, drawn, experiment.evaluation_facts)
    if (added := registered(settings, drawn)) or FACT in folder.facts:
        drawn = {**drawn, FACT: added}
    if training and drawn:
        # networks and scaling stay as they were when training began
        folder.write("facts", {**drawn, **folder.facts} if begun else {**folder.facts, **drawn})


def _reached(folder: Run, phase: Phase, training: bool) -> tuple[int, float]:
    """Steps and seconds that a phase was trained for; InputError where some are lacking and it is not to be trained."""
    path, steps, reached, seconds = folder.checkpoint(phase.name), phase.optimisation.steps, 0, 0.0
    if path.exists():
        facts = checkpoint.open_phase(path, phase.objective, phase.optimisation)[1]
        reached, seconds = facts["step"], facts["seconds"]
    if reached < steps and not training:
        remedy = f"finish it by {folder.continuation}"
        raise InputError(f"{folder.path}: phase {phase.name} stands at step {reached} of {steps}: {remedy}")
    return reached, seconds


def _as_list(values: Any) -> Any:
    """Numbers of an array or a tensor, which JSON does not hold; other values as they are."""
    return values.tolist() if hasattr(values, "tolist") else values


def _keep(folder: Run, settings: Settings, result: Result, metrics: dict[str, float], took: Mapping[str, Any]) -> None:
    """Write what came out, and the facts of it. Killed meanwhile, the run is not finished, and is evaluated again."""
    folder.forget_results()
    curves = {name: {key: _as_list(part) for key, part in curve.items()} for name, curve in result.curves.items()}
    folder.write("curves", curves)
    for name, tensors in result.tensors.items():
        checkpoint.save(folder.path / f"{name}.safetensors", tensors, origin(settings))
    for file in folder.path.glob("*.safetensors"):  # of an earlier evaluation
        if file.stem in folder.facts.get("tensors", []) and file.stem not in result.tensors:
            file.unlink()
    facts = {key: value for key, value in folder.facts.items() if key not in ("evaluated", "notes", "tensors")}
    facts |= meaning(settings) | {name: metrics[name] for name in ("seconds_wall",) if name in metrics}
    findings = EXPERIMENTS.find(settings.experiment).findings(metrics, settings.method)
    notes = [*result.notes, *map(str, findings)]
    lists = {"notes": notes, "tensors": list(result.tensors)}
    facts |= {**took, **{name: values for name, values in lists.items() if values}, "settings": folder.determining}
    folder.write("facts", facts)
    folder.write("metrics", metrics)


def _fastest(folder: Run, settings: Settings, phase: Phase, fabric: Fabric, tune: bool) -> tuple[Settings, Fabric]:
    """Settings with the fastest hardware settings, which config.yaml then has, so that a resumption keeps them."""
    hardware, facts = choose(phase.objective, phase.sampler, phase.optimisation, settings.hardware, fabric.device)
    if hardware != settings.hardware:
        settings = replace(settings, hardware=hardware)
        fabric = make_fabric(hardware, tune=tune)
    if fabric.is_global_zero:
        write_atomically(folder.path / SETTINGS, to_yaml(settings.dump()).encode())
        folder.write("facts", {**folder.facts, "speed": facts, **ways(hardware)})
    return settings, fabric


def _built_together(phases: Iterator[Phase]) -> Iterator[Phase]:
    while True:
        with together():
            phase = next(phases, None)
        if phase is None:
            return
        yield phase
