"""THE training loop: for pre-training, heads and every baseline, on one core or many devices.

An *objective* is a module that takes a batch and the progress of training (0 … 1) and returns its loss terms, among
them "loss". A *sampler* takes the step and returns this process's part of the batch. All random numbers of a step
come from torch's global generators, which the loop seeds from (seed, phase, step): a run that was interrupted
continues bit for bit, and what an example draws does not depend on the number of processes.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from niso.checks import Scalar
from niso.collective import part_size, together
from niso.config import Hardware, Optimisation
from niso.errors import CheckpointError, Interrupted, TrainingError
from niso.messages import say
from niso.random import reseed, step_seed
from niso.training import checkpoint
from niso.training.compilation import (
    allow_uncompiled,
    begin_step,
    compile_networks,
    compile_step,
    keep_graphs_whole,
    undo_compilation,
    undo_decoders,
    wrong_gradient,
)
from niso.training.interruption import interruption
from niso.training.log import Log, row_interval
from niso.training.meter import Meter
from niso.training.optimizer import make_optimizer, set_learning_rates, spectra
from niso.training.processes import largest, mean
from niso.training.progress import Bar, stage
from niso.training.run import Run
from niso.training.times import Times

if TYPE_CHECKING:
    from lightning_fabric import Fabric

Sampler = Callable[[int], tuple[Tensor, ...]]

LOOK_EVERY = 50
"""Steps between looks at the loss on a GPU, at most: a look makes the GPU wait, and processes wait for each other. What
is logged is looked at before."""


@dataclass(frozen=True)
class Phase:
    """One stretch of training: pre-training, or a head on top of it.

    Attributes:
        name: its own among the phases of an experiment, of which checkpoint and log speak.
        objective: (batch, progress from 0 to 1) → scalar tensors by name. "loss" is what is minimised; the others are
            shown. The progress is a tensor where whole steps are compiled, and else a number.
        sampler: the batch of a step: this process's part.
        prepare: computes what all steps need, such as features of frozen networks, before the first step that is taken.
    """

    name: str
    objective: nn.Module
    sampler: Sampler
    optimisation: Optimisation
    prepare: Callable[[], object] | None = None


def train(
    phase: Phase,
    run: Run,
    fabric: Fabric,
    seed: int = 0,
    hardware: Hardware | None = None,
    times: Times | None = None,
) -> float:
    """Train a phase to its end, from its last checkpoint in the run folder if there is one.

    Writes `checkpoints/<phase>.safetensors`, rows of `log.csv` and TensorBoard events; afterwards the objective
    holds the final weights and is in evaluation mode.

    Args:
        hardware: what is compiled, and the time between checkpoints.
        times: gets the seconds of "compilation", which is the first step where something is compiled, and "training".

    Returns:
        Seconds of training, those before an interruption included.

    Raises:
        TrainingError: a loss term is not finite; the last good checkpoint stays.
        Interrupted: a signal came, see `interruption`; everything is saved. (A second one ends the process at once.)
        OtherProcessError: one of these happened in another process.
        CheckpointError: the checkpoint found is damaged or of another model, or one cannot be saved.
        InputError: the batch does not divide among processes and parts, the objective keeps state that is no tensor, or
            the checkpoint is beyond the steps.
    """
    times = times or Times()
    training = _Training(phase, run, fabric, seed, hardware or Hardware())
    with together():
        start, seconds = training.restore()
    if start < phase.optimisation.steps:
        seconds = training.go_on(start, seconds, times)
        times.end("training")
    if training.graphs:  # they are of one size of batch, overwrite what they returned before, and hold memory
        undo_compilation(phase.objective, graphs=True)
    undo_decoders(phase.objective)
    allow_uncompiled(phase.objective)
    phase.objective.eval()
    return seconds


class _Training:
    """A phase under way; arguments and errors are those of `train`."""

    def __init__(self, phase: Phase, run: Run, fabric: Fabric, seed: int, hardware: Hardware) -> None:
        self.phase, self.run, self.fabric, self.seed, self.hardware = phase.name, run, fabric, seed, hardware
        self.objective, self.sampler, self.optimisation = phase.objective, phase.sampler, phase.optimisation
        self.prepare = phase.prepare
        with together():
            part_size(self.optimisation.batch_size, self.optimisation.accumulation)
            checkpoint.check_state(phase.name, self.objective)
        self.determining, self.changing = checkpoint.determining(self.objective, self.optimisation), set[str]()
        self.path, self.meter = run.checkpoint(phase.name), Meter()
        self.resumption = f"{run.continuation} goes on"
        self.optimizer = make_optimizer(self.objective, self.optimisation)
        self.compiled = hardware.compile or hardware.whole_step
        if self.compiled and fabric.world_size > 1:
            keep_graphs_whole()
        single = fabric.world_size == 1 and self.optimisation.accumulation == 1
        self.graphs = self.compiled and single and fabric.device.type == "cuda"
        if hardware.whole_step:
            compile_step(self.objective, self.graphs)
        elif hardware.compile:
            compile_networks(self.objective, self.graphs)
        self.module, self.optimizer_handle = fabric.setup(self.objective, self.optimizer)
        self.learned = [  # rounding would change those that are frozen, whose features a head has already
            spectrum
            for spectrum in spectra(self.objective)
            if any(part.requires_grad for part in spectrum.parameters())
        ]

    def restore(self) -> tuple[int, float]:
        """Step and seconds of the checkpoint that training goes on from; zeros where there is none."""
        if not self.path.exists():
            return 0, 0.0
        tensors, facts = checkpoint.open_phase(self.path, self.objective, self.optimisation)
        for name, value in {"phase": self.phase, "seed": self.seed}.items():
            if facts.get(name) != value:
                found = f"its {name} is {facts.get(name)}, not {value}"
                raise CheckpointError(f"checkpoint {self.path} is of another run: {found}")
        checkpoint.restore_optimizer(tensors, self.objective, self.optimizer)
        row = facts["row"]  # of the log, that had begun
        self.meter.go_on(row["steps"], row["sums"])
        return facts["step"], facts["seconds"]

    def go_on(self, start: int, seconds: float, times: Times) -> float:
        """Train from a step to the end; the seconds of it all, where those before took `seconds`."""
        fabric, steps = self.fabric, self.optimisation.steps
        with together():
            log = Log(self.run.path, self.phase, start) if fabric.is_global_zero else None
        interval, several = row_interval(steps), fabric.world_size > 1
        look_every = min(interval, LOOK_EVERY) if fabric.device.type == "cuda" else 1
        last_words = f"the last checkpoint stays: {self.resumption}" if fabric.is_global_zero else ""
        last_saved = time.monotonic()
        began = last_saved - seconds
        if self.prepare:
            with together(), stage(f"{self.phase}: features", fabric.is_global_zero):
                self.prepare()
        self.objective.train()
        with (
            closing(log) if log is not None else nullcontext(),
            interruption(last_words, several) as received,
            Bar(self.phase, steps, start, fabric.is_global_zero) as bar,
        ):
            if self.compiled:
                self.check_compilation(start)
            for step in range(start, steps):
                done, since = step + 1, time.monotonic() - last_saved
                due = bool(received()) or done == steps or since >= self.hardware.checkpoint_seconds
                logging = done % interval == 0 or done == steps
                looking = done % look_every == 0 or logging or (due and not several)
                when = f"step {done}" if look_every == 1 else f"a step up to {done}"

                self.differentiate(self.draw(step, looking), step, looking, when)
                rate = self.update(step)
                seconds = time.monotonic() - began
                if step == start and self.compiled:
                    times.end("compilation")

                if logging:
                    self.record(bar, log, done, rate, seconds)
                if looking and largest(fabric, due or bool(received())):
                    self.save(done, seconds, stop=largest(fabric, received()))
                    last_saved = time.monotonic()
            if number := largest(fabric, received()):  # while the last step was saved
                with together():
                    if fabric.is_global_zero:
                        raise self.interrupted(steps, number)
        return seconds

    def check_compilation(self, start: int) -> None:
        """Undo the compilation of all processes where the gradients of one are wrong, and say so."""

        def gradients(module: Callable[..., dict[str, Tensor]]) -> None:  # of the first step
            part, *_ = self.draw(start, looking=False)
            if self.graphs:
                begin_step()
            with self.fabric.no_backward_sync(self.module), self.numerics(f"step {start + 1}"):
                self.fabric.backward(module(part, self.progress(start))["loss"])

        def trial(exact: bool) -> None:
            gradients(self.objective if exact and self.hardware.precision == "bf16-mixed" else self.module)

        with together():
            wrong = wrong_gradient(self.objective, trial, self.graphs)
        if not largest(self.fabric, bool(wrong)):
            return
        undo_compilation(self.objective, self.graphs)
        if self.fabric.is_global_zero:
            reason = wrong or "another process compiles a wrong gradient"
            say(f"{self.phase}: {reason}: training goes on uncompiled")
            self.run.write("facts", {**self.run.facts, "not_compiled": reason})

    def draw(self, step: int, looking: bool) -> list[tuple[Tensor, ...]]:
        """The batch of a step, in its parts; from here on all random numbers are that step's."""
        reseed(step_seed(self.seed, step, self.phase), self.fabric.device)
        with together(looking):
            batch = self.sampler(step)
        parts = self.optimisation.accumulation
        return [batch] if parts == 1 else list(zip(*(tensor.chunk(parts) for tensor in batch), strict=True))

    def differentiate(self, parts: list[tuple[Tensor, ...]], step: int, looking: bool, when: str) -> None:
        """Gradients of the mean loss of a batch's parts; `looking`, all processes stop where a term is not finite."""
        self.optimizer_handle.zero_grad()
        if self.graphs:
            begin_step()
        for number, part in enumerate(parts, 1):
            with self.fabric.no_backward_sync(self.module, enabled=number < len(parts)):  # one exchange a step
                with together(looking), self.numerics(when):
                    terms = self.module(part, self.progress(step))
                    self.meter.add(terms)
                    if not terms["loss"].requires_grad:
                        raise TypeError("an objective's loss has no gradient: is it detached, or made under no_grad?")
                    if looking:
                        self.meter.check_finite()
                self.fabric.backward(terms["loss"] / len(parts))

    def progress(self, step: int) -> Scalar:
        """The share of training that is done; on the device for a compiled step, else compiled for one number."""
        share = step / self.optimisation.steps
        return torch.full((), share, device=self.fabric.device) if self.hardware.whole_step else share

    def update(self, step: int) -> float:
        """Take the step by its gradients, and bring learned bases back to where they are orthonormal; its rate."""
        rate = set_learning_rates(self.optimizer, self.optimisation, step)
        self.optimizer_handle.step()
        for spectrum in self.learned:
            spectrum.retract_()
        return rate

    @contextmanager
    def numerics(self, when: str) -> Iterator[None]:
        """Add to an error of the numerics when it happened and what to do."""
        try:
            yield
        except FloatingPointError as error:
            kept = "; its last checkpoint is kept: " if self.path.exists() else ": look at the values that it gets, or "
            advice = f"training stopped{kept}try a lower learning rate"
            raise TrainingError(f"{self.phase}: {when}: {error}; {advice}") from error

    def record(self, bar: Bar, log: Log | None, done: int, rate: float, seconds: float) -> None:
        """Show and log the means of loss terms since they were shown last, over all processes."""
        means = mean(self.fabric, self.meter.flush())
        bar.show(done, means)
        with together():
            if log is not None:
                log.write(done, rate, seconds, means)

    def save(self, done: int, seconds: float, stop: int) -> None:
        """Save a checkpoint; then stop, where a signal, of this number, asks for it."""
        row = {"steps": self.meter.count, "sums": mean(self.fabric, self.meter.sums())}
        with together(), self.numerics(f"step {done}"):
            _check_weights(self.objective)
            if self.fabric.is_global_zero:
                state = checkpoint.training_state(self.objective, self.optimizer)
                facts = {"phase": self.phase, "step": done, "seconds": seconds, "seed": self.seed, "row": row}
                facts["determining"] = self.unchanged()
                facts["length"] = checkpoint.length(self.optimisation)
                checkpoint.save(self.path, state, facts)
                if stop:
                    raise self.interrupted(done, stop)

    def unchanged(self) -> checkpoint.Facts:
        """What the phase is trained with, without what the objective itself changes, as counters; a line names these
        once."""
        now = checkpoint.determining(self.objective, self.optimisation)
        kept = {name: value for name, value in self.determining.items() if now.get(name) == value}
        if new := self.determining.keys() - kept.keys() - self.changing:
            self.changing |= new
            counts = f"the objective changes {', '.join(sorted(new))} while it is trained"
            say(f"! {self.phase}: {counts}, which checkpoints do not hold: make it a buffer, a tensor")
        return kept

    def interrupted(self, done: int, number: int) -> Interrupted:
        """What says that a signal, of this number, ended training after a step that is saved."""
        saved = f"interrupted and saved at step {done} of {self.optimisation.steps}"
        return Interrupted(f"{self.phase}: {saved}; {self.resumption}", number)


def _check_weights(module: nn.Module) -> None:
    """A gradient can overflow though the loss is finite: such weights must not replace a good checkpoint."""
    named = dict(module.named_parameters())
    if not named:
        return
    finite = torch.stack([parameter.isfinite().all() for parameter in named.values()])  # one wait for a GPU, not many
    for name, good in zip(named, finite.tolist(), strict=True):
        if not good:
            raise FloatingPointError(f"the update made parameter {name!r} not finite")
