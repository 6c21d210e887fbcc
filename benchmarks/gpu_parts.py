"""What `benchmarks.on_gpu` measures in a process of its own: polar factors, whole steps, several devices.

Run: python -m benchmarks.on_gpu, which starts this.
"""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks import polar, scaling
from benchmarks.common import machine
from benchmarks.on_gpu import GRACE, LOST, write
from benchmarks.steps import PLAIN, Size, Step

import torch  # isort: skip  # after benchmarks.common, which sets how its threads wait
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map

import niso
from niso.networks import ConvConfig
from niso.training.environment import CHANGES
from niso.training.speed import Way

TOLERANCE = 2.0
"""Times the SVD's error that a backend of the polar factor may have at condition 1e3."""
LEAST = 15.0
"""Seconds that have to be left for a measurement to begin."""
ENOUGH = 60.0
"""Seconds after which a measurement that did not end is taken to hang: with fewer, it is made once more."""
AHEAD = 120.0
"""Most seconds for which the steps of all experiments are compiled side by side: poses took as long, beside tests."""
SERIES = 2.0
"""Most seconds of a series of timings, about."""
SHAPES = (*polar.SHAPES, (1, 288, 64), (1, 1296, 128))
"""Those of `benchmarks.polar`, and Φ of shapes and poses at the paper's sizes."""


@dataclass(frozen=True)
class Call:
    """What a part is asked for."""

    device: str
    rehearse: bool
    file: Path
    until: float
    """When nothing new is begun, by `time.time`."""


class LostError(Exception):
    """This process can do nothing more on its GPU, as after an illegal memory access."""


class Kept:
    """The results of a part, kept in its file after every measurement; those that are there are not measured again.

    What was cut by the clock, or has lost its GPU, is measured once more by a later process, after all others.
    """

    def __init__(self, call: Call) -> None:
        self.call, self.later = call, dict[str, Callable[[], Any]]()
        about = {**machine(call.device), "rehearse": call.rehearse, "until": call.until}
        self.content: dict[str, Any] = {"machine": about, "results": {}}
        if call.file.exists():
            stored = json.loads(call.file.read_text())
            if same_machine(stored["machine"], self.content["machine"]):
                self.content["results"] = stored["results"]
        self.results: dict[str, Any] = self.content["results"]

    def measure(self, name: str, function: Callable[[], Any]) -> None:
        """Keep what a function returns, or why it failed; nothing where there is a result or little time is left.

        Raises:
            LostError: the process has lost its GPU, so that whatever followed would fail as well.
        """
        if name not in self.results:
            self._measure(name, function, True)
        elif isinstance(self.results[name], dict) and self.results[name].get("again"):
            self.later[name] = function

    def measure_again(self) -> None:
        """Measure once more what an earlier process could not.

        Raises:
            LostError: as by `measure`.
        """
        while self.later:
            name = next(iter(self.later))
            self._measure(name, self.later.pop(name), False)

    def _measure(self, name: str, function: Callable[[], Any], first: bool) -> None:
        left = self.call.until - time.time()
        if left < LEAST:
            return
        seconds = left + GRACE / 2  # then the process is killed, and this is what it leaves:
        again = first and seconds < ENOUGH
        self.write(name, {"failed": "it did not end in its time", "seconds": seconds, "again": again})
        try:
            result = function()
        except Exception as error:  # one that fails must not keep the others from being measured
            result = {"failed": " ".join(f"{type(error).__name__}: {error}".split())[:400]}
            if lost(error):
                self.keep(name, {**result, "again": first})
                raise LostError from error
        self.keep(name, result)

    def keep(self, name: str, result: Any) -> None:
        """Write a result into the file, and say it."""
        self.write(name, result)
        brief = json.dumps(result, ensure_ascii=False)
        print(f"{name}: {brief if len(brief) < 200 else brief[:200] + ' …'}", flush=True)

    def write(self, name: str, result: Any) -> None:
        """Write a result into the file, in one step."""
        self.results[name] = result
        write(self.call.file, self.content)


def same_machine(one: dict[str, Any], other: dict[str, Any]) -> bool:
    """Whether results were made by the same device, versions and commit, and both in a rehearsal or both not.

    Where the commit is not known, or is not all that there was, the code was the same in one call alone.
    """
    keys = ["commit", "cpu", "gpu", "torch", "python", "rehearse"]
    if one.get("commit") is None or one["commit"].endswith(CHANGES):
        keys.append("until")
    return all(one.get(key) == other.get(key) for key in keys)


def lost(error: Exception) -> bool:
    """Whether a process that gets this has lost its GPU."""
    name = type(error).__name__  # older versions of torch have no such class, and raise a RuntimeError
    return name == "AcceleratorError" or (isinstance(error, RuntimeError) and "CUDA error" in str(error))


# Polar factors


def polars(call: Call, kept: Kept) -> None:
    """Each backend at each size: milliseconds eager and as a CUDA graph; their accuracy; the choice."""
    shapes = (SHAPES[0], SHAPES[5]) if call.rehearse else SHAPES
    side, repeats = (16, 1) if call.rehearse else (128, 9)
    on_gpu = call.device == "cuda"
    svds: dict[str, Callable[[Tensor], Tensor]] = {"svd": niso.polar, **(polar.DRIVERS if on_gpu else {})}
    kept.measure("accuracy", lambda: polar.accuracy(call.device, side))
    for name, backend in svds.items():
        kept.measure(
            f"orthogonality at half the rank, {name}", partial(polar.orthogonality, backend, call.device, side)
        )
    for shape in shapes:
        for name, backend in polar.CALLS.items():
            kept.measure(timing(shape, name, "eager"), partial(one_backend, backend, shape, call.device, repeats))
            if on_gpu and name.startswith("products"):  # the others wait for the host
                captured = partial(one_backend, backend, shape, call.device, repeats, graph=True)
                kept.measure(timing(shape, name, "graph"), captured)
        for name, backend in svds.items() if on_gpu else ():  # cuSOLVER's algorithms, which have no gradient here
            forward = partial(one_backend, backend, shape, call.device, repeats, gradient=False)
            kept.measure(timing(shape, name, "forward"), forward)
        kept.write("choice", choice(kept.results, shapes))  # now, as this process may be killed
    kept.measure_again()
    kept.keep("choice", choice(kept.results, shapes))


def timing(shape: tuple[int, ...], backend: str, kind: str) -> str:
    """The name of a measurement of time."""
    return f"{' × '.join(map(str, shape))}, {backend}, {kind}"


def one_backend(
    backend: Callable[[Tensor], Tensor],
    shape: tuple[int, ...],
    device: str,
    repeats: int,
    graph: bool = False,
    gradient: bool = True,
) -> dict[str, float]:
    """Milliseconds of a backend, forward and, where asked for, backward."""
    torch.manual_seed(0)
    m = torch.randn(shape, device=device, requires_grad=gradient)
    upstream = torch.randn_like(m)

    def function() -> Any:
        return torch.autograd.grad(backend(m), m, upstream) if gradient else backend(m)

    return {"milliseconds": milliseconds(graphed(function) if graph else function, device, repeats)}


def choice(results: dict[str, Any], shapes: tuple[tuple[int, ...], ...]) -> dict[str, Any]:
    """For each size the fastest of the backends that are accurate enough: eager, and of those that can be captured.

    It is of what has been measured: None where nothing has.
    """
    accuracy = results.get("accuracy")
    rows = accuracy if isinstance(accuracy, list) else []  # it failed, or there was no time for it
    exact: dict[str, float | None] = next((row["error"] for row in rows if row["condition"] == 1e3), {})
    svd = exact.get("svd")
    if svd is None:
        return {"left out": "nothing is known of the accuracy"}
    unstable = "autograd of svd"  # where singular values are nearly equal
    allowed = [n for n, error in exact.items() if n != unstable and error is not None and error <= TOLERANCE * svd]

    def fastest(shape: tuple[int, ...], kind: str) -> str | None:
        found = {name: results.get(timing(shape, name, kind), {}).get("milliseconds") for name in allowed}
        known = {name: time for name, time in found.items() if time is not None}
        return min(known, key=lambda name: known[name]) if known else None

    choices = {
        " × ".join(map(str, shape)): {kind: fastest(shape, kind) for kind in ("eager", "graph")} for shape in shapes
    }
    return {"accurate enough": allowed, **choices}


# Whole steps


SIZES = {
    "homnist": Size(ConvConfig(channels=(128, 256)), 32, 16, 0.1),
    "torus": Size(None, 256, 1, 0.1),
    "shapes": Size(
        ConvConfig((96, 192), 16, (32, 64, 128, 256), blocks=2, latent_channels=64, padding="longitude"), 64, 16, 0.01
    ),
    "pose": Size(ConvConfig((144, 144), 3, (64, 128, 256), blocks=4, latent_channels=128), 128, 8, 0.025),
}
"""Of the experiments' `paper` presets, as the test says."""


@dataclass(frozen=True)
class Mode:
    """A way to compute a step."""

    way: Way = PLAIN
    tf32: bool = False


MODES = {
    "bf16, step as CUDA graphs": Mode(Way("bf16-mixed", compile=True, whole_step=True)),
    "bf16, networks as CUDA graphs": Mode(Way("bf16-mixed", compile=True)),
    "bf16": Mode(Way("bf16-mixed")),
    "float32": Mode(),
    "TF32": Mode(tf32=True),
}
"""Those first that tell most, as time may run out."""


def smaller(size: Size) -> Size:
    """A size to be rehearsed, with the channels of its images and their padding."""
    if size.conv is None:
        return replace(size, rank=16)
    conv = replace(size.conv, image_size=(8, 8), channels=(8,), blocks=1, latent_channels=8, stem_channels=8, patch=2)
    return replace(size, conv=conv, rank=8, batch=2)


def steps(call: Call, kept: Kept) -> None:
    """Each experiment's step in each mode, and what its convolutions and matrix products alone take."""
    sizes, compiler, repeats = SIZES, "inductor", 30
    if call.rehearse:
        sizes, compiler, repeats = {name: smaller(size) for name, size in SIZES.items()}, "eager", 1
    else:
        compile_ahead(call, [name for name in sizes if f"{name}, {next(iter(MODES))}" not in kept.results])
    for mode_name, mode in MODES.items():
        for name, size in sizes.items():
            slow = call.rehearse and mode.way.compile and size.conv
            if makes_sense(size, mode) and not slow:
                kept.measure(f"{name}, {mode_name}", partial(one_step, size, mode, call.device, compiler, repeats))


def makes_sense(size: Size, mode: Mode) -> bool:
    """Whether a step of this size has what the mode is about: networks."""
    return size.conv is not None or not (mode.tf32 or (mode.way.compile and not mode.way.whole_step))


def compile_ahead(call: Call, names: list[str]) -> None:
    """Compile the steps of experiments in processes side by side, as one after the other would take six minutes; torch
    keeps the kernels, where the measurements find them."""
    words = [sys.executable, "-m", "benchmarks.gpu_parts", "compile", call.device]
    others = [subprocess.Popen([*words, name]) for name in names]
    until = time.time() + min(AHEAD, (call.until - time.time()) / 2)  # time is left to measure
    for other in others:
        try:
            other.wait(max(until - time.time(), 0))
        except subprocess.TimeoutExpired:
            other.kill()
            other.wait()


def compiled(device: str, name: str) -> None:
    """Compute steps of an experiment in each mode that is compiled, in this process."""
    for mode in MODES.values():
        if mode.way.compile and makes_sense(SIZES[name], mode):
            one_step(SIZES[name], mode, device, "inductor", 1)


def one_step(size: Size, mode: Mode, device: str, compiler: str, repeats: int) -> dict[str, Any]:
    """Milliseconds of a step and, where nothing is compiled, of its arithmetic alone; seconds of the first step, with
    kernels that may have been compiled before."""
    on_gpu = device == "cuda"
    torch.compiler.reset()
    torch.set_float32_matmul_precision("high" if mode.tf32 else "highest")
    torch.backends.cudnn.allow_tf32 = mode.tf32
    if on_gpu:
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
    began = time.perf_counter()
    phase = size.phase(torch.device(device))
    if mode.way.whole_step and compiler != "inductor":
        phase.objective.compile(backend=compiler)
    step = Step(phase, mode.way)
    step()
    if on_gpu:
        torch.cuda.synchronize()
    result: dict[str, Any] = {"first_seconds": time.perf_counter() - began}
    result["milliseconds"] = milliseconds(step, device, repeats)
    if on_gpu:
        result["peak_mib"] = torch.cuda.max_memory_allocated() / 2**20
    if not mode.way.compile:
        result["floor_milliseconds"] = floor(step, device, repeats)
        result["share_of_floor"] = result["floor_milliseconds"] / result["milliseconds"]
    return result


class Arithmetic(TorchDispatchMode):
    """Notes every convolution and matrix product, to be computed again without what is between them."""

    NAMES = ("convolution", "mm", "bmm", "addmm", "baddbmm")

    def __init__(self) -> None:
        super().__init__()
        self.counts: dict[str, int] = {}
        self.calls: dict[str, Callable[[], Any]] = {}

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = function.overloadpacket.__name__.removesuffix("_backward")
        if name in self.NAMES:

            def describe(x: Any) -> Any:
                return (x.shape, x.stride(), x.dtype) if isinstance(x, Tensor) else x

            key = f"{function} {tree_map(describe, args)}"
            self.counts[key] = self.counts.get(key, 0) + 1
            if key not in self.calls:
                copies = tree_map(lambda x: torch.randn_like(x) if isinstance(x, Tensor) else x, args)
                self.calls[key] = partial(function, *copies, **(kwargs or {}))
        return function(*args, **(kwargs or {}))

    def again(self) -> None:
        """All of them, as often as they occurred."""
        for key, call in self.calls.items():
            for _ in range(self.counts[key]):
                call()


def floor(step: Callable[[], Any], device: str, repeats: int) -> float:
    """Milliseconds of a step's convolutions and matrix products alone, in their own shapes and precision."""
    with Arithmetic() as arithmetic:
        step()
    with torch.no_grad():
        run = graphed(arithmetic.again) if device == "cuda" else arithmetic.again
        return milliseconds(run, device, repeats)


def graphed(function: Callable[[], Any]) -> Callable[[], None]:
    """A CUDA graph of a function, after three calls on another stream, as torch asks for."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            function()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        function()
    return graph.replay


def milliseconds(function: Callable[[], Any], device: str, repeats: int) -> float:
    """Of one call: the median of three series, in each of which nothing waits for the device but the end.

    A series has fewer calls where so many would take more than `SERIES` seconds.
    """

    def series(calls: int) -> float:
        began = time.perf_counter()
        for _ in range(calls):
            function()
        if device == "cuda":
            torch.cuda.synchronize()
        return (time.perf_counter() - began) / calls

    alone = list[float]()  # to warm up, and to know how many calls a series can have
    while len(alone) < repeats and math.fsum(alone) < SERIES:
        alone.append(series(1))
    calls = max(1, min(repeats, int(SERIES / min(alone))))
    return 1e3 * sorted(series(calls) for _ in range(3))[1]


# Several devices


def ddp(call: Call, kept: Kept) -> None:
    """A step in one process and in two, each with a device of its own."""
    if call.device == "cuda" and torch.cuda.device_count() < 2:
        kept.keep("left out", "one device")
        return
    options = scaling.ScalingOptions(device=call.device, repeats=1 if call.rehearse else 30)
    pairs = 2 if call.rehearse else options.batch
    kept.measure("1 process", lambda: scaling.measure(1, pairs, options))
    kept.measure("2 processes, the same batch", lambda: scaling.measure(2, pairs // 2, options))
    if not call.rehearse:  # it would try nothing new
        kept.measure("2 processes, twice the batch", lambda: scaling.measure(2, pairs, options))


PARTS = {"polar": polars, "steps": steps, "ddp": ddp}


def main(words: list[str]) -> None:
    """Measure one part: its name, the device, whether it is a rehearsal, its file, and until when; or compile the steps
    of an experiment, for a device."""
    torch.set_num_threads(1)
    if words[0] == "compile":
        compiled(*words[1:])
        return
    name, device, rehearse, file, until = words
    call = Call(device, rehearse == "True", Path(file), float(until))
    kept = Kept(call)
    try:
        PARTS[name](call, kept)
        kept.measure_again()
    except LostError:
        os._exit(LOST)  # at once: what torch has on a GPU that is lost may abort the process when it is freed
    if name != "ddp" and time.time() > call.until - LEAST:
        print("its time is over: the next call goes on", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
