"""THE training loop: for pre-training, heads and every baseline, on one core or many devices.

An *objective* is a module that takes a batch and the progress of training (0 … 1) and returns its loss terms, among
them "loss". A *sampler* takes the step and returns this process's part of the batch. All random numbers of a step
come from torch's global generators, which the loop seeds from (seed, phase, step): a run that was interrupted
continues bit for bit, and what an example draws does not depend on the number of processes.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from niso import checkpoint
from niso.config import Hardware, Optimisation
from niso.errors import InputError, TrainingError
from niso.progress import Bar, Log, Meter, every
from niso.random import reseed, step_seed
from niso.run_folder import RunFolder

if TYPE_CHECKING:
    from lightning_fabric import Fabric

Sampler = Callable[[int], tuple[Tensor, ...]]


def make_fabric(hardware: Hardware) -> Fabric:
    """A launched lightning-fabric for this hardware; starts the other processes where there are several."""
    from lightning_fabric import Fabric  # slow to import

    torch.set_num_threads(hardware.threads)
    several = hardware.devices * hardware.nodes > 1
    fabric = Fabric(
        accelerator="cuda" if hardware.accelerator == "gpu" else hardware.accelerator,
        devices=hardware.devices,
        num_nodes=hardware.nodes,
        strategy="ddp" if several else "auto",
        precision=hardware.precision,
    )
    fabric.launch()
    return fabric


def train(
    objective: nn.Module,
    sampler: Sampler,
    optimisation: Optimisation,
    run: RunFolder,
    fabric: Fabric,
    phase: str = "pretrain",
    seed: int = 0,
    checkpoint_seconds: float = 30.0,
) -> float:
    """Train `objective` to the end, from the phase's last checkpoint in the run folder if there is one.

    Writes `checkpoints/<phase>.safetensors`, rows of `log.csv` and TensorBoard events; afterwards `objective`
    holds the final weights and is in evaluation mode.

    Returns:
        Seconds of training, those before an interruption included.

    Raises:
        TrainingError: a loss term is not finite (the message says at which step and which; the last good
            checkpoint stays), or SIGINT or SIGTERM came (after saving).
        CheckpointError: the checkpoint found is damaged or of another model, or one cannot be saved.
        InputError: the batch does not divide among the processes.
    """
    if optimisation.batch_size % fabric.world_size:
        raise InputError(
            f"batch size {optimisation.batch_size} does not divide among {fabric.world_size} processes: "
            "choose a multiple"
        )
    optimizer = torch.optim.AdamW(
        [p for p in objective.parameters() if p.requires_grad],
        lr=optimisation.learning_rate,
        weight_decay=optimisation.weight_decay,
        fused=True,
    )
    module, optimizer_handle = fabric.setup(objective, optimizer)
    path, steps = run.checkpoint(phase), optimisation.steps
    start, seconds_before = 0, 0.0
    if path.exists():
        tensors, facts = checkpoint.load(path)
        checkpoint.restore_training(path, tensors, objective, optimizer)
        start, seconds_before = facts["step"], facts["seconds"]
    if start >= steps:
        objective.eval()
        return seconds_before
    log = Log(run.path, phase, start) if fabric.is_global_zero else None
    meter, interval = Meter(), every(steps)
    check_interval = interval if fabric.device.type == "cuda" else 1  # a check makes a GPU wait
    began = last_saved = time.monotonic()
    objective.train()
    with _interruption() as interrupted, Bar(phase, steps, start, fabric.is_global_zero) as bar:
        for step in range(start, steps):
            rate = optimisation.rate_at(step)
            for group in optimizer.param_groups:
                group["lr"] = rate
            reseed(step_seed(seed, step, phase), fabric.device)
            try:
                terms = module(sampler(step), step / steps)
            except FloatingPointError as error:
                raise TrainingError(f"{phase}: step {step + 1}: {error}; {_ADVICE}") from error
            meter.add(terms)
            done = step + 1
            saving = interrupted() or done == steps or time.monotonic() - last_saved >= checkpoint_seconds
            if (saving or done % check_interval == 0) and (bad := meter.not_finite()) is not None:
                when = f"step {done}" if check_interval == 1 else f"a step up to {done}"
                raise TrainingError(f"{phase}: {when}: the term {bad!r} of the loss is not finite; {_ADVICE}")
            optimizer_handle.zero_grad()
            fabric.backward(terms["loss"])
            optimizer_handle.step()
            seconds = seconds_before + time.monotonic() - began
            if done % interval == 0 or done == steps:
                means = meter.flush()
                bar.show(done, means)
                if log is not None:
                    log.write(done, rate, seconds, means)
            if saving:
                _check_weights(objective, f"{phase}: step {done}")
                if fabric.is_global_zero:
                    state = checkpoint.training_state(objective, optimizer)
                    checkpoint.save(
                        path, state, {"phase": phase, "step": done, "seconds": seconds, "seed": seed}
                    )
                last_saved = time.monotonic()
            if interrupted() and done < steps:
                raise TrainingError(
                    f"{phase}: interrupted and saved at step {done}; `niso resume {run.path}` goes on"
                )
    if log is not None:
        log.close()
    objective.eval()
    return seconds


_ADVICE = "training stopped and the last good checkpoint is kept: try a lower learning rate"


def _check_weights(module: nn.Module, when: str) -> None:
    """A gradient can overflow though the loss is finite: such weights must not replace a good checkpoint."""
    for name, parameter in module.named_parameters():
        if not parameter.isfinite().all():
            raise TrainingError(f"{when}: the update made parameter {name!r} not finite; {_ADVICE}")


@contextmanager
def _interruption() -> Iterator[Callable[[], bool]]:
    """While inside, SIGINT and SIGTERM do not end the process; the function given tells whether one came."""
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
        yield lambda: bool(received)
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
