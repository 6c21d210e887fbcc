"""What `--speed auto` measures of the networks' steps, on random images, in one run, or the memory that they take.

Run: python -m benchmarks.speed
At the paper's sizes: python -m benchmarks.speed --compile --cases "homnist released" "shapes paper"
Memory, which a busy machine does not change: python -m benchmarks.speed --memory
"""

from __future__ import annotations

import multiprocessing
import os
import resource
import tempfile
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

import tyro

from benchmarks.common import Named, Options, table, write
from benchmarks.profile import convolutional
from benchmarks.step import conv_rate
from benchmarks.steps import Step, operations

import torch  # isort: skip  # after benchmarks.common, which sets how its threads wait

from niso.config import Hardware
from niso.training import speed
from niso.training.memory import keep_freed_memory


@dataclass(frozen=True)
class SpeedOptions(Named):
    """Options of the benchmark."""

    device: str = "cuda" if torch.cuda.is_available() else "cpu"
    """cpu or cuda."""
    cases: tuple[str, ...] = ("homnist small", "shapes small", "pose small")
    """Experiments and presets whose steps are measured."""
    repeats: int = 5
    """Timed steps of each way, of which the fastest counts."""
    compile: bool = False
    """Measure compiled networks too, whatever the length of the run."""
    memory: bool = False
    """Measure memory, always of compiled networks too, and no times."""


WAYS = (speed.Way(), speed.Way("bf16-mixed"), speed.Way("bf16-mixed", True))
"""Whose memory is measured."""


def measured(case: str, options: SpeedOptions) -> dict[str, Any]:
    """What `--speed auto` finds for a step, on one thread; its arithmetic, and the rates of its convolutions alone."""
    torch.set_num_threads(1)
    if options.device == "cpu":
        keep_freed_memory()
    os.environ["OMP_NUM_THREADS"] = "1"  # of all that it may use, `--speed auto` tries this alone
    speed.REPEATS = options.repeats
    speed.COMPILING = dict.fromkeys(speed.COMPILING, 0.0) if options.compile else speed.COMPILING
    device = torch.device(options.device)
    torch.manual_seed(0)
    phase, conv = convolutional(*case.split(), device)
    arithmetic = operations(Step(phase))
    _, found = speed.choose(phase.objective, phase.sampler, phase.optimisation, Hardware(speed="auto"), device)
    images, timing = 2 * phase.optimisation.batch_size, Options(device=options.device, repeats=options.repeats)
    rates = {
        precision: conv_rate(conv, images, timing, {"device": device, "dtype": dtype})[1]
        for precision, dtype in {"32-true": torch.float32, "bf16-mixed": torch.bfloat16}.items()
    }
    return {
        **found,
        "parameters": sum(parameter.numel() for parameter in phase.objective.parameters()),
        "gflop": sum(arithmetic.values()) / 1e9,
        "conv_gflop_per_second": rates,
    }


def peak_memory(case: str, way: speed.Way, device: str) -> float:
    """GiB that a process takes at most which makes two steps, networks and imports included."""
    if device == "cpu":
        keep_freed_memory()
    step = Step(convolutional(*case.split(), torch.device(device))[0], way)
    for _ in range(2):
        step()
    if device == "cuda":
        return torch.cuda.max_memory_allocated() / 2**30
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def peaks(case: str, way: speed.Way, device: str) -> dict[str, float]:
    """Peak memory of two processes, one after the other: the second finds on disk what the first has compiled."""
    with tempfile.TemporaryDirectory() as folder, patch.dict(os.environ, TORCHINDUCTOR_CACHE_DIR=folder):
        return {name: alone(peak_memory, case, way, device) for name in ("first", "second")}


def alone(function: Any, *arguments: Any) -> Any:
    """What a function returns in a process of its own."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        return pool.submit(function, *arguments).result()


def memory(options: SpeedOptions) -> None:
    """Peak memory of each way, alike: in a process that compiles, and in one that has its code from the disk."""
    results = {case: {str(way): peaks(case, way, options.device) for way in WAYS} for case in options.cases}
    rows = [(case, way, *peak.values()) for case, found in results.items() for way, peak in found.items()]
    columns = ("step", "way", "first process", "second process")
    table(f"Peak memory of a process that makes two steps, GiB, {options.device}", columns, rows)
    write("speed-memory", options, {"results": results})


def main(options: SpeedOptions) -> None:
    """Let it choose, without what it has measured before."""
    if options.memory:
        memory(options)
        return
    results, rows = {}, []
    with tempfile.TemporaryDirectory() as folder, patch.dict(os.environ, NISO_SPEED_CACHE=folder):
        for case in options.cases:
            found = results[case] = alone(measured, case, options)
            seconds = found["seconds_per_step"]
            plain = seconds[str(speed.Way())]
            for way, one in seconds.items():
                if one is not None:
                    rate = found["conv_gflop_per_second"][way.split(",")[0]]
                    rows.append((case, way, 1e3 * one, plain / one, f"{found['gflop'] / one / rate:.0%}"))
    columns = ("step", "way", "milliseconds", "times as fast", "/ conv")
    table(f"Forward and backward pass of a step, {options.device}", columns, rows)
    write("speed", options, {"results": results})


if __name__ == "__main__":
    main(tyro.cli(SpeedOptions, description=__doc__))
