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
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from niso.collective import together
from niso.config import Hardware, Optimisation
from niso.errors import CheckpointError, InputError, Interrupted, TrainingError
from niso.files import in_shell
from niso.random import reseed, step_seed
from niso.training import checkpoint
from niso.training.compilation import (
    compile_networks,
    draw_as_eager_code,
    keep_graphs_whole,
    undo_compilation,
    wrong_gradient,
)
from niso.training.interruption import interruption
from niso.training.optimizer import make_optimizer, set_learning_rates, spectra
from niso.training.processes import largest, mean
from niso.training.progress import Bar, Log, Meter, every, say
from niso.training.run import Run
from niso.training.times import Times

if TYPE_CHECKING:
    from lightning_fabric import Fabric

Sampler = Callable[[int], tuple[Tensor, ...]]

LOOK_EVERY = 50
"""Steps between looks at the loss on a GPU, at most: a look makes the GPU wait, and processes wait for each other."""


def train(
    objective: nn.Module,
    sampler: Sampler,
    optimisation: Optimisation,
    run: Run,
    fabric: Fabric,
    phase: str = "pretrain",
    seed: int = 0,
    hardware: Hardware | None = None,
    times: Times | None = None,
) -> float:
    """Train `objective` to the end, from the phase's last checkpoint in the run folder if there is one.

    Writes `checkpoints/<phase>.safetensors`, rows of `log.csv` and TensorBoard events; afterwards `objective`
    holds the final weights and is in evaluation mode.

    Args:
        hardware: what is compiled, and the time between checkpoints.
        times: gets the seconds of "compilation", which is the first step where something is compiled, and "training".

    Returns:
        Seconds of training, those before an interruption included.

    Raises:
        TrainingError: a loss term is not finite; the last good checkpoint stays.
        Interrupted: SIGINT or SIGTERM came; everything is saved. (A second one ends the process at once.)
        OtherProcessError: one of these happened in another process.
        CheckpointError: the checkpoint found is damaged or of another model, or one cannot be saved.
        InputError: the batch does not divide among processes and parts, or the checkpoint is beyond the steps.
    """
    steps, parts, path = optimisation.steps, optimisation.accumulation, run.checkpoint(phase)
    hardware, times = hardware or Hardware(), times or Times()
    with together():
        if optimisation.batch_size % (fabric.world_size * parts):
            among = f"{fabric.world_size} processes" + (f" in {parts} parts each" if parts > 1 else "")
            raise InputError(f"batch size {optimisation.batch_size} does not divide among {among}: choose a multiple")
    optimizer = make_optimizer(objective, optimisation)
    if fabric.world_size > 1 and (hardware.compile or hardware.whole_step):
        keep_graphs_whole()
    if hardware.whole_step:  # not as CUDA graphs: the SVD of the polar factor waits for the host
        draw_as_eager_code()
        objective.compile()
    elif hardware.compile:
        compile_networks(objective)
    module, optimizer_handle = fabric.setup(objective, optimizer)
    meter = Meter()
    with together():
        start, seconds = _restore(path, objective, optimizer, meter, phase, seed, optimisation, fabric.device)
    if start == steps:
        objective.eval()
        return seconds
    with together():
        log = Log(run.path, phase, start) if fabric.is_global_zero else None
    learned, interval = spectra(objective), every(steps)
    on_gpu, several = fabric.device.type == "cuda", fabric.world_size > 1
    look_every = min(interval, LOOK_EVERY) if on_gpu else 1
    resumption = f"`niso resume {in_shell(run.path)}` goes on"
    last_words = f"the last checkpoint stays: {resumption}" if fabric.is_global_zero else ""
    last_saved = time.monotonic()
    began = last_saved - seconds
    objective.train()

    def trial() -> None:  # the gradients of the first step
        reseed(step_seed(seed, start, phase), fabric.device)
        part = tuple(tensor.chunk(parts)[0] for tensor in sampler(start))
        with fabric.no_backward_sync(module), _numerics(f"{phase}: step {start + 1}"):
            fabric.backward(module(part, start / steps)["loss"])

    with (
        closing(log) if log is not None else nullcontext(),
        interruption(last_words, several) as received,
        Bar(phase, steps, start, fabric.is_global_zero) as bar,
    ):
        if compiled := hardware.compile or hardware.whole_step:
            _check_compilation(objective, trial, run, fabric, phase)
        for step in range(start, steps):
            done = step + 1
            due = bool(received()) or done == steps or time.monotonic() - last_saved >= hardware.checkpoint_seconds
            looking = done % look_every == 0 or done == steps or (due and not several)
            when = f"{phase}: step {done}" if look_every == 1 else f"{phase}: a step up to {done}"

            reseed(step_seed(seed, step, phase), fabric.device)
            with together(looking):
                batch = sampler(step)
            optimizer_handle.zero_grad()
            divided = [batch] if parts == 1 else list(zip(*(tensor.chunk(parts) for tensor in batch), strict=True))
            for number, part in enumerate(divided, 1):
                with fabric.no_backward_sync(module, enabled=number < parts):  # one exchange of gradients a step
                    with together(looking), _numerics(when):
                        terms = module(part, step / steps)
                        meter.add(terms)
                        if looking:
                            meter.check_finite()
                    fabric.backward(terms["loss"] / parts)
            rate = set_learning_rates(optimizer, optimisation, step)
            optimizer_handle.step()
            for spectrum in learned:
                spectrum.retract_()
            seconds = time.monotonic() - began
            if step == start and compiled:
                times.end("compilation")

            if done % interval == 0 or done == steps:
                means = mean(fabric, meter.flush())
                bar.show(done, means)
                with together():
                    if log is not None:
                        log.write(done, rate, seconds, means)
            if looking and largest(fabric, due or bool(received())):
                stop = largest(fabric, received())
                row = {"steps": meter.count, "sums": mean(fabric, meter.sums())}
                with together(), _numerics(f"{phase}: step {done}"):
                    _check_weights(objective)
                    if fabric.is_global_zero:
                        state = checkpoint.training_state(objective, optimizer)
                        facts = {"phase": phase, "step": done, "seconds": seconds, "seed": seed, "row": row}
                        facts["determining"] = checkpoint.determining(objective, optimisation)
                        checkpoint.save(path, state, facts)
                        if stop:
                            saved = f"interrupted and saved at step {done} of {steps}"
                            raise Interrupted(f"{phase}: {saved}; {resumption}", stop)
                last_saved = time.monotonic()
    objective.eval()
    times.end("training")
    return seconds


def _check_compilation(objective: nn.Module, step: Callable[[], None], run: Run, fabric: Fabric, phase: str) -> None:
    """Undo the compilation of all processes where the gradients of one are wrong, and say so."""
    with together():
        wrong = wrong_gradient(objective, step)
    if not largest(fabric, bool(wrong)):
        return
    undo_compilation(objective)
    if fabric.is_global_zero:
        reason = wrong or "another process compiles a wrong gradient"
        say(f"{phase}: {reason}: training goes on uncompiled")
        run.write("facts", {**run.facts, "not_compiled": reason})


def _restore(
    path: Path,
    objective: nn.Module,
    optimizer: torch.optim.Optimizer,
    meter: Meter,
    phase: str,
    seed: int,
    optimisation: Optimisation,
    device: torch.device,
) -> tuple[int, float]:
    """Step and seconds of the checkpoint that training goes on from; zeros where there is none."""
    if not path.exists():
        return 0, 0.0
    tensors, facts = checkpoint.open_phase(path, objective, optimisation)
    for name, value in {"phase": phase, "seed": seed}.items():
        if facts.get(name) != value:
            raise CheckpointError(f"checkpoint {path} is of another run: its {name} is {facts.get(name)}, not {value}")
    checkpoint.restore_training(path, tensors, objective, optimizer)
    if row := facts.get("row"):  # of the log, that had begun; older versions do not say
        meter.go_on(row["steps"], row["sums"])
    return facts["step"], facts["seconds"]


@contextmanager
def _numerics(when: str) -> Iterator[None]:
    """Add to an error of the numerics when it happened and what to do."""
    try:
        yield
    except FloatingPointError as error:
        advice = "training stopped; checkpoints from before are kept: try a lower learning rate"
        raise TrainingError(f"{when}: {error}; {advice}") from error


def _check_weights(module: nn.Module) -> None:
    """A gradient can overflow though the loss is finite: such weights must not replace a good checkpoint."""
    named = dict(module.named_parameters())
    if not named:
        return
    finite = torch.stack([parameter.isfinite().all() for parameter in named.values()])  # one wait for a GPU, not many
    for name, good in zip(named, finite.tolist(), strict=True):
        if not good:
            raise FloatingPointError(f"the update made parameter {name!r} not finite")
