"""SIGKILLs at random moments of a small run: resumed each time, it must end with the same bits as if left alone.

Each process is forked from this one, which has imported everything, and draws no figures: a kill comes while it works
on the run, not while it loads libraries. Needs a POSIX system.

Run: python -m tools.kills
"""

from __future__ import annotations

import contextlib
import io
import json
import multiprocessing
import os
import random
import signal
import tempfile
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tyro

from benchmarks.common import Named, table, write

import numpy as np  # isort: skip  # after benchmarks.common, which sets how threads wait
import torch
from PIL import Image

from niso import report
from niso.cli.main import main
from niso.report import pictures
from niso.training import checkpoint

RUN = (
    "torus --size 4 --images 3 --pool 50 --batch-size 1 --evaluation-pairs 2 --accelerator cpu --checkpoint-seconds 0"
).split()


@dataclass(frozen=True)
class Options(Named):
    """Options of the kills."""

    kills: int = 100
    """Processes to end by SIGKILL."""
    steps: int = 100
    """Steps of a run."""
    seed: int = 0
    """Of the moments."""


def images(folder: Path) -> Path:
    """A data folder: three small pictures of noise."""
    folder.mkdir()
    for number in range(3):
        pixels = np.random.default_rng(number).integers(0, 256, (16, 16, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(folder / f"{number}.png")
    return folder


def call(words: list[str], log: Path) -> None:
    """The `niso` command, in a process of its own."""
    descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(descriptor, 1)
    os.dup2(descriptor, 2)
    main(words)


def prepare(words: list[str]) -> None:
    """Import all that a run needs, by a run in this process."""
    torch.set_num_threads(1)
    blank = io.BytesIO()
    Image.new("RGB", (2, 2)).save(blank, "PNG")
    report.save_pictures, pictures.as_png = (lambda *_: None), (lambda _: blank.getvalue())
    nowhere = io.StringIO()
    with contextlib.redirect_stdout(nowhere), contextlib.redirect_stderr(nowhere), contextlib.suppress(SystemExit):
        main(words)


def niso(words: list[str], log: Path, seconds: float | None = None) -> int:
    """Exit status of the command, or -9 where it was killed after so many seconds."""
    process = multiprocessing.get_context("fork").Process(target=call, args=(words, log))
    process.start()
    process.join(seconds)
    if process.exitcode is None:
        process.kill()
        process.join()
    assert process.exitcode is not None
    return process.exitcode


def ending(run: Path) -> tuple[dict[str, torch.Tensor], dict[str, Any]]:
    """Weights and moments at the end of a run, and its metrics but for times."""
    tensors = {}
    for file in sorted([*run.glob("checkpoints/*.safetensors"), run / "weights.safetensors"]):
        tensors |= {f"{file.name} {name}": tensor for name, tensor in checkpoint.load(file)[0].items()}
    metrics = json.loads((run / "metrics.json").read_text())
    return tensors, {name: value for name, value in metrics.items() if not name.startswith("seconds")}


def same(one: Path, other: Path) -> bool:
    """Whether two runs ended with the same bits."""
    (tensors, metrics), (others, other_metrics) = ending(one), ending(other)
    equal = all(torch.equal(tensors[name], others[name]) for name in tensors.keys() & others.keys())
    return equal and tensors.keys() == others.keys() and metrics == other_metrics


def place(run: Path) -> str:
    """Where a kill came."""
    if not (run / "config.yaml").exists():
        return "before the run folder was made"
    if not list(run.glob("checkpoints/*.safetensors")):
        return "before the first checkpoint"
    return "after training" if (run / "weights.safetensors").exists() else "while training"


def work(options: Options, folder: Path) -> dict[str, Any]:
    """Kill and resume, run after run; what came of it."""
    chance, log = random.Random(options.seed), folder / "log"
    command = ["run", *RUN, "--steps", str(options.steps), "--data-dir", str(images(folder / "images"))]
    prepare([*command, "--out", str(folder / "first")])
    begin = time.monotonic()
    alone = folder / "alone"
    if niso([*command, "--out", str(alone)], log):
        raise RuntimeError(log.read_text())
    length = time.monotonic() - begin
    kills, places, findings, runs, equal = 0, Counter[str](), list[dict[str, Any]](), 0, 0
    while kills < options.kills or runs == 0:
        run, mine = folder / f"run{runs}", 0
        while True:
            words = ["resume", str(run)] if (run / "config.yaml").exists() else [*command, "--out", str(run)]
            patience = chance.uniform(0, length) if kills < options.kills and mine < 10 else None
            status = niso(words, log, patience)
            if status != -signal.SIGKILL:
                break
            kills, mine = kills + 1, mine + 1
            places[place(run)] += 1
        runs += 1
        if status or not same(alone, run):
            findings.append({"run": runs - 1, "kills": mine, "status": status, "log": log.read_text()[-500:]})
        else:
            equal += 1
    return {"kills": kills, "places": dict(places), "runs": runs, "runs_with_equal_bits": equal, "findings": findings}


def benchmark(options: Options) -> None:
    """Kill, resume, compare."""
    begin = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        results = work(options, Path(folder))
    table("SIGKILLs", ("moment", "kills"), [*results["places"].items(), ("all", results["kills"])])
    rows = [(results["runs"], results["runs_with_equal_bits"])]
    table("Runs that were resumed after each", ("runs", "with the same bits as one left alone"), rows)
    write("kills", options, {"seconds": round(time.monotonic() - begin, 1), **results})


if __name__ == "__main__":
    benchmark(tyro.cli(Options, description=__doc__))
