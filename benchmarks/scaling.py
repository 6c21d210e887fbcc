"""A training step in 1 and 2 processes here, and a model of many on paper from the measured times and bytes.

Run: python -m benchmarks.scaling
"""

from __future__ import annotations

import os
import socket
from dataclasses import dataclass
from importlib import import_module
from statistics import median
from typing import Any

from benchmarks.common import Clock, Options, table, write
from benchmarks.steps import Size, Step

import torch  # isort: skip  # after benchmarks.common, which sets how its threads wait
from torch import distributed
from torch.multiprocessing.spawn import start_processes
from torch.nn.parallel import DistributedDataParallel

from niso.networks import ConvConfig
from niso.training.speed import Way

CONV = ConvConfig(channels=(32, 64), blocks=2, stem_channels=32, patch=2)
"""homNIST's `small` networks."""
LINKS = {"1 Gbit/s": 0.125e9, "10 Gbit/s": 1.25e9, "100 Gbit/s": 12.5e9}
"""Bytes a second each way between neighbours."""
LATENCY = 50e-6
"""Assumed seconds of one message of the ring."""
WORLDS = (2, 4, 8, 16, 32, 64)
ASSUMPTIONS = (
    "Every process takes the measured time of one for its part of the batch, whatever its neighbours do.",
    "Time is proportional to the part, but for the measured time of what does not shrink: Φ and the optimiser.",
    "Gradients are summed by a ring: 2 (P − 1) / P times their bytes over the link, and 2 (P − 1) messages of "
    f"{LATENCY * 1e6:.0f} µs.",
    "Nothing overlaps: DDP hides part of the ring behind the backward pass, so that the model is pessimistic there.",
)


@dataclass(frozen=True)
class ScalingOptions(Options):
    """Options of the scaling benchmark."""

    device: str = "cpu"
    """cpu, by gloo, or cuda, by NCCL: a GPU for each process."""

    threads: tuple[int, ...] = (1,)
    """CPU threads of a process; the first is taken."""
    batch: int = 16
    """Pairs of a step: over all processes where it stays the same, of each process where it grows with them."""


def worker(rank: int, world: int, pairs: int, port: int, options: ScalingOptions, results: Any) -> None:
    """Train in one of `world` processes, each with a GPU of its own where there are any; the first notes its times."""
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    on_gpu = options.device == "cuda"
    device = torch.device("cuda", rank) if on_gpu else torch.device("cpu")
    if on_gpu:
        torch.cuda.set_device(device)
    distributed.init_process_group("nccl" if on_gpu else "gloo", rank=rank, world_size=world)
    step = Step(Size(CONV, 32, pairs).phase(device), Way(threads=options.threads[0]))
    if world > 1:
        step.module = DistributedDataParallel(step.module)
    parameters, spectrum = list(step.module.parameters()), step.spectra[0]
    gradient = torch.zeros(sum(p.numel() for p in parameters), device=device)
    clock = Clock(options.device, options.cpu_time)
    for _ in range(options.repeats + 2):
        distributed.barrier()
        start = clock.now()
        step()
        clock.add("step", clock.now() - start)
        distributed.barrier()
        start = clock.now()
        distributed.all_reduce(gradient)
        clock.add("all-reduce", clock.now() - start)
        for parameter in parameters:  # without gradients the optimiser would pass over the networks
            parameter.grad = torch.zeros_like(parameter)
        start = clock.now()
        spectrum().eigenfunctions.sum().backward()
        step.optimizer.step()
        clock.add("fixed", clock.now() - start)
    if rank == 0:
        results.update({name: median(values[2:]) for name, values in clock.seconds.items()})
        results["gradient bytes"] = 4 * gradient.numel()
    distributed.destroy_process_group()


def measure(world: int, pairs: int, options: ScalingOptions) -> dict[str, float]:
    """Median seconds in `world` processes with `pairs` pairs each."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with torch.multiprocessing.Manager() as manager:
        results = manager.dict()
        method = "spawn" if options.device == "cuda" else "fork"  # CUDA cannot be forked; importing torch takes seconds
        if method == "fork":
            import_module("torch._dynamo")  # which the optimiser of each process would import
        start_processes(worker, (world, pairs, port, options, results), nprocs=world, start_method=method)
        return dict(results)


def modelled(one: dict[str, float]) -> list[dict[str, Any]]:
    """Speed-up of a step with the same batch in all, and efficiency with the same batch in each, by the assumptions."""
    rows = []
    shrinking = one["step"] - one["fixed"]
    for link, rate in LINKS.items():
        for world in WORLDS:
            ring = 2 * (world - 1) / world * one["gradient bytes"] / rate + 2 * (world - 1) * LATENCY
            same = one["step"] / (one["fixed"] + shrinking / world + ring)
            rows.append(
                {"link": link, "processes": world, "speed-up": same, "efficiency": one["step"] / (one["step"] + ring)}
            )
    return rows


def main(options: ScalingOptions) -> None:
    """Measure 1 and 2 processes, model more."""
    one = measure(1, options.batch, options)
    half = measure(2, options.batch // 2, options)
    two = measure(2, options.batch, options)
    measured = {"1 process": one, "2 processes, the same batch": half, "2 processes, twice the batch": two}
    names = ("step", "all-reduce", "fixed")
    rows: list[tuple[Any, ...]] = [(name, *(1e3 * r[n] for n in names)) for name, r in measured.items()]
    backend = "NCCL" if options.device == "cuda" else "gloo"
    table(f"Median milliseconds, homNIST small, {backend} on one machine", ("", *names), rows)
    model = modelled(one)
    rows = [
        (link, *(next(m[key] for m in model if (m["link"], m["processes"]) == (link, w)) for w in WORLDS))
        for key in ("speed-up", "efficiency")
        for link in LINKS
    ]
    labels = [f"{key}, {link}" for key in ("speed-up, same batch", "efficiency, batch grows") for link in LINKS]
    rows = [(label, *row[1:]) for label, row in zip(labels, rows, strict=True)]
    table("Modelled, not measured: processes", ("", *map(str, WORLDS)), rows)
    write("scaling", options, {"assumptions": ASSUMPTIONS, "measured": measured, "modelled": model})


if __name__ == "__main__":
    import tyro  # machines that run parts of this need not have it

    main(tyro.cli(ScalingOptions, description=__doc__))
