"""THE training loop: for pre-training, heads and every baseline, on one core or many devices.

An *objective* is a module that takes a batch and the progress of training (0 … 1) and returns its loss terms, among
them "loss". A *sampler* takes the step and returns this process's part of the batch. All random numbers of a step
come from torch's global generators, which the loop seeds from (seed, phase, step): a run that was interrupted
continues bit for bit, and what an example draws does not depend on the number of processes.
"""

from __future__ import annotations

import logging
import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, nullcontext
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, cast

import torch
from torch import Tensor, nn

from niso.config import Hardware, Optimisation
from niso.errors import CheckpointError, InputError, Interrupted, OtherProcessError, TrainingError
from niso.random import reseed, step_seed
from niso.training import checkpoint
from niso.training.compilation import compile_networks, compile_objective
from niso.training.memory import keep_freed_memory
from niso.training.optimizer import make_optimizer, set_learning_rates, spectra
from niso.training.progress import Bar, Log, Meter, every
from niso.training.run import Run

if TYPE_CHECKING:
    from lightning_fabric import Fabric

Sampler = Callable[[int], tuple[Tensor, ...]]


def make_fabric(hardware: Hardware, prepare: Callable[[], object] | None = None) -> Fabric:
    """A launched lightning-fabric for this hardware; starts the other processes where there are several.

    Args:
        prepare: what the first process does before there are others, e.g. checks that may fail.

    Raises:
        InputError: this machine does not have the hardware.
    """
    from lightning_fabric import Fabric  # slow to import
    from lightning_fabric.utilities.exceptions import MisconfigurationException

    logging.getLogger("lightning_fabric").setLevel(logging.WARNING)  # not which process is which
    torch.set_num_threads(hardware.threads)
    several = hardware.devices * hardware.nodes > 1
    if hardware.nodes > 1 and not any(os.environ.get(name) for name in ("RANK", "SLURM_PROCID", "NODE_RANK")):
        raise InputError(f"{hardware.nodes} nodes need a launcher: start niso on each of them by torchrun or srun")
    try:
        fabric = Fabric(
            accelerator="cuda" if hardware.accelerator == "gpu" else hardware.accelerator,
            devices=hardware.devices,
            num_nodes=hardware.nodes,
            strategy="ddp" if several else "auto",
            precision=hardware.precision,
        )
    except (MisconfigurationException, RuntimeError, ValueError) as error:
        asked = f"accelerator {hardware.accelerator}, {hardware.devices} devices"
        reason = " ".join(str(error).split())
        raise InputError(f"this machine cannot run with {asked}: {reason}") from error
    if prepare is not None and (first_process() or not several):
        prepare()
    fabric.launch()
    if fabric.device.type == "cpu":
        keep_freed_memory()
    return fabric


def first_process() -> bool:
    """Whether this is the first of several processes, as their launcher (torchrun, SLURM, Fabric) tells it."""
    ranks = ("RANK", "SLURM_PROCID", "NODE_RANK", "LOCAL_RANK")
    return not any(int(os.environ.get(name) or 0) for name in ranks)


@contextmanager
def together(fabric: Fabric, agree: bool = True) -> Iterator[None]:
    """Work after which all processes go on or none: where one fails, the others do not wait for it for ever.

    Args:
        agree: False turns this off; it must be the same in all processes.

    Raises:
        OtherProcessError: the work failed in another process, which raises what went wrong.
    """
    error: Exception | None = None
    try:
        yield
    except Exception as caught:
        if fabric.world_size == 1 or not agree:
            raise
        error = caught
    if fabric.world_size == 1 or not agree:
        return
    mine = fabric.world_size if error is None else fabric.global_rank
    first = int(cast(Tensor, fabric.all_reduce(torch.tensor(mine, device=fabric.device), reduce_op="min")))
    if error is not None and first == fabric.global_rank:
        raise error
    if first < fabric.world_size:
        raise OtherProcessError(f"process {first} failed")


def _anywhere(fabric: Fabric, number: int) -> int:
    """The largest of all processes' numbers."""
    if fabric.world_size == 1:
        return number
    return int(cast(Tensor, fabric.all_reduce(torch.tensor(number, device=fabric.device), reduce_op="max")))


def _part(batch: tuple[Tensor, ...], part: int, parts: int) -> tuple[Tensor, ...]:
    return batch if parts == 1 else tuple(views.chunk(parts)[part] for views in batch)


def _mean(fabric: Fabric, terms: dict[str, float]) -> dict[str, float]:
    """Means over all processes' parts of the batch."""
    if fabric.world_size == 1:
        return terms
    values = torch.tensor(list(terms.values()), dtype=torch.float64, device=fabric.device)
    return dict(zip(terms, cast(Tensor, fabric.all_reduce(values, reduce_op="mean")).tolist(), strict=True))


def train(
    objective: nn.Module,
    sampler: Sampler,
    optimisation: Optimisation,
    run: Run,
    fabric: Fabric,
    phase: str = "pretrain",
    seed: int = 0,
    checkpoint_seconds: float = 30.0,
    compiled: bool = False,
    whole_step: bool = False,
) -> float:
    """Train `objective` to the end, from the phase's last checkpoint in the run folder if there is one.

    Writes `checkpoints/<phase>.safetensors`, rows of `log.csv` and TensorBoard events; afterwards `objective`
    holds the final weights and is in evaluation mode.

    Args:
        compiled: compile the modules named encoder and decoder, where they are faster for it.
        whole_step: compile the objective as a whole; see `compile_objective`.

    Returns:
        Seconds of training, those before an interruption included.

    Raises:
        TrainingError: a loss term is not finite (the message says at which step and which; the last good
            checkpoint stays).
        Interrupted: SIGINT or SIGTERM came; everything is saved.
        OtherProcessError: one of these happened in another process.
        CheckpointError: the checkpoint found is damaged or of another model, or one cannot be saved.
        InputError: the batch does not divide among the processes and the parts of each.
    """
    parts = optimisation.accumulation
    with together(fabric):
        if optimisation.batch_size % (fabric.world_size * parts):
            into = f" in {parts} parts each" if parts > 1 else ""
            raise InputError(
                f"batch size {optimisation.batch_size} does not divide among {fabric.world_size} processes{into}: "
                "choose a multiple"
            )
    optimizer = make_optimizer(objective, optimisation)
    if whole_step:
        compile_objective(objective)
    elif compiled:
        compile_networks(objective)
    module, optimizer_handle = fabric.setup(objective, optimizer)
    learned = spectra(objective)
    path, steps = run.checkpoint(phase), optimisation.steps
    start, seconds_before = 0, 0.0
    with together(fabric):
        if path.exists():
            start, seconds_before = _restore(path, objective, optimizer, phase, seed)
    if start >= steps:
        objective.eval()
        return seconds_before
    with together(fabric):
        log = Log(run.path, phase, start) if fabric.is_global_zero else None
    meter, interval = Meter(), every(steps)
    # a look at the loss makes a GPU wait, and several processes wait for each other
    look_every = min(interval, 50) if fabric.device.type == "cuda" else 1
    began = last_saved = time.monotonic()
    seconds = seconds_before
    objective.train()
    with (
        closing(log) if log is not None else nullcontext(),
        _interruption() as received,
        Bar(phase, steps, start, fabric.is_global_zero) as bar,
    ):
        for step in range(start, steps):
            reseed(step_seed(seed, step, phase), fabric.device)
            done = step + 1
            due = bool(received()) or done == steps or time.monotonic() - last_saved >= checkpoint_seconds
            looking = done % look_every == 0 or done == steps or (due and fabric.world_size == 1)
            with together(fabric, looking):  # by itself: in the objective, processes may exchange latents
                batch = sampler(step)
            optimizer_handle.zero_grad()
            for part in range(parts):
                with fabric.no_backward_sync(module, enabled=part + 1 < parts):  # one exchange of gradients a step
                    with together(fabric, looking):
                        try:
                            terms = module(_part(batch, part, parts), step / steps)
                        except FloatingPointError as error:
                            raise TrainingError(f"{phase}: step {done}: {error}; {_ADVICE}") from error
                        meter.add(terms)
                        if looking and (bad := meter.not_finite()) is not None:
                            when = f"step {done}" if look_every == 1 else f"a step up to {done}"
                            problem = f"the term {bad!r} of the loss is not finite"
                            raise TrainingError(f"{phase}: {when}: {problem}; {_ADVICE}")
                    fabric.backward(terms["loss"] / parts)
            rate = set_learning_rates(optimizer, optimisation, step)
            optimizer_handle.step()
            for spectrum in learned:
                spectrum.retract_()
            seconds = seconds_before + time.monotonic() - began
            if done % interval == 0 or done == steps:
                means = _mean(fabric, meter.flush())
                bar.show(done, means)
                with together(fabric):
                    if log is not None:
                        log.write(done, rate, seconds, means)
            if looking and _anywhere(fabric, due or bool(received())):
                stop = _anywhere(fabric, received())
                with together(fabric):
                    _check_weights(objective, f"{phase}: step {done}")
                    if fabric.is_global_zero:
                        state = checkpoint.training_state(objective, optimizer)
                        checkpoint.save(path, state, {"phase": phase, "step": done, "seconds": seconds, "seed": seed})
                        if stop:
                            goes_on = f"`niso resume {run.path}` goes on"
                            raise Interrupted(
                                f"{phase}: interrupted and saved at step {done} of {steps}; {goes_on}", stop
                            )
                last_saved = time.monotonic()
    objective.eval()
    return seconds


_ADVICE = "training stopped and the last good checkpoint is kept: try a lower learning rate"


def _restore(
    path: Path, objective: nn.Module, optimizer: torch.optim.Optimizer, phase: str, seed: int
) -> tuple[int, float]:
    """Step and seconds of the checkpoint that training goes on from."""
    tensors, facts = checkpoint.load(path)
    for name, value in {"phase": phase, "seed": seed}.items():
        if facts.get(name) != value:
            raise CheckpointError(f"checkpoint {path} is of another run: its {name} is {facts.get(name)}, not {value}")
    checkpoint.restore_training(path, tensors, objective, optimizer)
    return facts["step"], facts["seconds"]


def _check_weights(module: nn.Module, when: str) -> None:
    """A gradient can overflow though the loss is finite: such weights must not replace a good checkpoint."""
    for name, parameter in module.named_parameters():
        if not parameter.isfinite().all():
            raise TrainingError(f"{when}: the update made parameter {name!r} not finite; {_ADVICE}")


@contextmanager
def _interruption() -> Iterator[Callable[[], int]]:
    """While inside, SIGINT and SIGTERM do not end the process; the function given tells which came, else 0."""
    received: list[int] = []

    def note(number: int, _: FrameType | None) -> None:
        if received and number == signal.SIGINT:  # the second Ctrl-C means now
            raise KeyboardInterrupt
        received.append(number)

    previous = {}
    for number in (signal.SIGINT, signal.SIGTERM):
        try:
            previous[number] = signal.signal(number, note)
        except ValueError:  # not in the main thread: leave signals alone
            break
    try:
        yield lambda: received[0] if received else 0
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
