"""What `--speed auto` measures of the networks' steps at `small`, on random images, in one run.

Run: python -m benchmarks.speed
"""

from __future__ import annotations

import os
import tempfile
from dataclasses import dataclass

import tyro

from benchmarks.common import Named, table, write
from benchmarks.profile import convolutional

import torch  # isort: skip  # after benchmarks.common, which sets how its threads wait

from niso.config import Hardware
from niso.training import speed
from niso.training.memory import keep_freed_memory


@dataclass(frozen=True)
class SpeedOptions(Named):
    """Options of the benchmark."""

    device: str = "cuda" if torch.cuda.is_available() else "cpu"
    """cpu or cuda."""
    experiments: tuple[str, ...] = ("homnist", "shapes", "pose")
    """Whose steps are measured."""
    repeats: int = 5
    """Timed steps of each way, of which the fastest counts."""
    compile: bool = False
    """Measure compiled networks too, whatever the length of the run."""


def main(options: SpeedOptions) -> None:
    """Let it choose, without what it has measured before."""
    torch.set_num_threads(1)
    if options.device == "cpu":
        keep_freed_memory()
    speed.REPEATS = options.repeats
    speed.COMPILING = 0.0 if options.compile else speed.COMPILING
    device, results, rows = torch.device(options.device), {}, []
    with tempfile.TemporaryDirectory() as folder:
        os.environ["NISO_SPEED_CACHE"] = folder
        for name in options.experiments:
            torch.manual_seed(0)
            case = convolutional(name, device)
            asked = Hardware(speed="auto")
            _, results[name] = speed.choose(case.objective, case.sampler, case.optimisation, asked, device)
    for name, found in results.items():
        seconds = found["seconds_per_step"]
        plain = seconds[str(speed.Way())]
        rows += [(f"{name} small", way, 1e3 * one, plain / one) for way, one in seconds.items() if one is not None]
    columns = ("step", "way", "milliseconds", "times as fast as float32, eager, one thread")
    table(f"Forward and backward pass of a step, {options.device}", columns, rows)
    write("speed", options, {"results": results})


if __name__ == "__main__":
    main(tyro.cli(SpeedOptions, description=__doc__))
