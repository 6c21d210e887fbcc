"""`--speed auto`: precision, compilation and threads of a run, chosen among what is measured on this machine.

Steps of the run itself are timed, forwards and backwards, before it begins. Times are kept for the machine, the
versions of niso and torch, the networks' shape and the loss, in the user's cache or in the folder that
NISO_SPEED_CACHE names.
"""

from __future__ import annotations

import json
import math
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import is_dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor, nn

from niso.cache import cached
from niso.config import Hardware, Optimisation, parse
from niso.data.workers import cores
from niso.errors import InputError, first_line
from niso.files.digests import digest
from niso.files.json import parse_json, write_json
from niso.files.locks import locked
from niso.messages import say
from niso.training.compilation import (
    begin_step,
    compile_networks,
    compile_step,
    no_trace,
    steps_become_graphs,
    trained_networks,
    undo_compilation,
    wrong_gradient,
)
from niso.training.environment import machine
from niso.training.mode import in_mode

if TYPE_CHECKING:
    from lightning_fabric import Fabric

    from niso.training.loop import Sampler

FEWEST_STEPS = 600
"""In a shorter run nothing is measured: at 12 steps or so, that would cost more than a fiftieth of the run."""
REPEATS = 2
"""Timed steps of each way, of which the faster counts, after one that is not timed."""
HOPELESS = 4.0
"""Times of the fastest first step, which is not warm yet, from which a way is given up."""
SIDE = 256
"""Of the matrices by which `half_slower` compares."""
SLOWER = 3.0
"""Times as long as in float32 from which bfloat16 is called a loss."""
GAIN = 1.1
"""How much faster than float32, eager, one thread another way must be."""
HALF = "bf16-mixed"
COMPILING = {"cpu": 600.0, "cuda": 120.0}
"""Seconds that a run must take before compilation, which takes tens of them, is tried. A GPU gains most by it."""


class Way(NamedTuple):
    """A way to compute a step."""

    precision: str = "32-true"
    compile: bool = False
    threads: int = 1
    whole_step: bool = False

    def __str__(self) -> str:
        many = "" if self.threads == 1 else f", {self.threads} threads"
        how = "whole step compiled" if self.whole_step else "compiled" if self.compile else "eager"
        return f"{self.precision}, {how}{many}"


def choose(
    objective: nn.Module, sampler: Sampler, optimisation: Optimisation, hardware: Hardware, device: torch.device
) -> tuple[Hardware, dict[str, Any]]:
    """The fastest hardware settings for a run, and what was measured, for its facts.

    Where compiled code is the fastest, what it compiled stays so in place, and training, which leaves alone what is
    compiled already, goes on with that.

    Args:
        objective, sampler, optimisation: of its first phase; weights and random numbers stay as they are.
        hardware: what was asked for. It is returned where nothing is measured: in a run of fewer than `FEWEST_STEPS`,
            of several processes, or without networks on a CPU.
    """
    networks = any(True for _ in trained_networks(objective))
    reasons = {
        "a short run": optimisation.steps < FEWEST_STEPS,
        "several processes": hardware.devices * hardware.nodes > 1,
        "no networks": not networks and device.type == "cpu",
    }
    if any(reasons.values()):
        return hardware, {"not_measured": next(why for why, holds in reasons.items() if holds)}
    began, ways, plain = time.monotonic(), _eager(device) if networks else [Way()], Way()
    trial = _Trial(objective, sampler, optimisation.accumulation, device)
    steps = optimisation.steps * optimisation.accumulation
    with _kept(trial.key(ways)) as found:  # of runs side by side, one measures
        before, seconds = set(found["seconds"]), found["seconds"]
        known = [way for way in ways if seconds.get(str(way))]
        if not known or not trial.takes(min(known, key=lambda way: seconds[str(way)])):
            seconds.clear()
            seconds |= trial.compare(ways)
        fitting = [way for way in ways if seconds.get(str(way))]
        eager = min(fitting, key=lambda way: seconds[str(way)])
        total = {way: steps * seconds[str(way)] for way in fitting}
        for way in _compiled(eager, trial.graphs, networks):
            if str(way) not in seconds and total[eager] >= COMPILING[device.type]:
                found["compilation"], seconds[str(way)] = trial.compiled(way)
            if seconds.get(str(way)) is not None:
                total[way] = steps * seconds[str(way)] + found["compilation"]
                break
    best = min(total, key=lambda way: total[way] * (1 if way == plain else GAIN))
    if not best.compile:
        undo_compilation(objective, trial.graphs)
    new = set(seconds) != before
    gain = "for which the GPU has memory enough, as it has not for float32"
    if plain in fitting:
        gain = f"{seconds[str(plain)] / seconds[str(best)]:.1f}× as fast as {plain}"
    when = f"measured in {time.monotonic() - began:.0f} s" if new else "as measured before"
    say(f"speed: {best}" + ("" if best == plain else f", {gain}") + f"; {when}; add --speed exact to leave this out")
    facts = {**best._asdict(), "seconds_per_step": seconds, "compilation": found["compilation"], "measured": new}
    return replace(hardware, **best._asdict()), facts


def half_slower(objective: nn.Module, hardware: Hardware, fabric: Fabric) -> float:
    """Times as long as in float32 that networks' products take, where bfloat16 is no gain but a loss; 0 elsewhere.

    CPUs that have no arithmetic in bfloat16 take tens of times as long. A run that chose it elsewhere may go on there.
    """
    here = fabric.is_global_zero and fabric.device.type == "cpu" and hardware.precision == HALF
    if not here or not any(True for _ in trained_networks(objective)):
        return 0.0

    def seconds(dtype: torch.dtype) -> float:
        factor = torch.ones(SIDE, SIDE, dtype=dtype)
        times = []
        for _ in range(1 + REPEATS):
            began = time.perf_counter()
            factor @ factor
            times.append(time.perf_counter() - began)
        return min(times)

    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # several wait for each other where others compute
    try:
        ratio = seconds(torch.bfloat16) / seconds(torch.float32)
    finally:
        torch.set_num_threads(threads)
    return ratio if ratio > SLOWER else 0.0


def _eager(device: torch.device) -> list[Way]:
    allowed = os.environ.get("OMP_NUM_THREADS", "").partition(",")[0]
    most = min(cores(), int(allowed) if allowed.isdecimal() and int(allowed) else cores())
    most = most if device.type == "cpu" else 1
    return [Way(precision, False, n) for n in sorted({1, most}) for precision in ("32-true", HALF)]


def _compiled(eager: Way, graphs: bool, networks: bool) -> list[Way]:
    """Ways to compile: each is tried where those before it cannot be compiled.

    Where steps become CUDA graphs, whole ones are best: a GPU then waits for the fewest launches.
    """
    compiled = eager._replace(compile=True)
    whole = [compiled._replace(whole_step=True)] if graphs and steps_become_graphs() else []
    return [*whole, *([compiled] if networks else [])]


class _Trial:
    """Steps of a run, or parts of them, that leave no trace."""

    def __init__(self, objective: nn.Module, sampler: Sampler, parts: int, device: torch.device) -> None:
        self.objective, self.device = objective, device
        self.graphs = device.type == "cuda" and parts == 1
        with torch.random.fork_rng([device] if device.type == "cuda" else []):
            self.batch = tuple(tensor.chunk(parts)[0] for tensor in sampler(0))

    def key(self, ways: Sequence[Way]) -> str:
        """Of all that times depend on: the machine, versions, networks, what of a loss is computed, and the batch."""
        shapes = [[name, list(p.shape), str(p.dtype)] for name, p in self.objective.named_parameters()]
        modules = [[type(module).__qualname__, _settings(module)] for module in self.objective.modules()]
        batch = [[list(tensor.shape), str(tensor.dtype)] for tensor in self.batch]
        content = json.dumps([machine(self.device), self.graphs, shapes, modules, batch, [str(way) for way in ways]])
        return digest(content.encode())

    def compare(self, ways: Sequence[Way]) -> dict[str, float]:
        """Seconds of a step of each; they take turns, so that a busy machine slows all alike.

        What is hopeless at first is not tried again, as bfloat16 on CPUs that do not have it; but the first way is,
        whose first step pays for what all of them need. What a GPU has no memory for is left out, and so is half
        precision where networks of the user's own do not take it.

        Raises:
            OutOfMemoryError: it has too little for all of them.
        """
        seconds, failures = dict[Way, float](), list[torch.OutOfMemoryError]()
        refused = set[str]()
        for way in ways:
            if way.precision in refused:
                continue
            try:
                seconds[way] = self.step(way)
            except torch.OutOfMemoryError as failure:
                failures.append(failure.with_traceback(None))  # whose frames hold memory
            except Exception as failure:  # of many kinds, e.g. assignments to what is float32
                if way.precision != HALF:
                    raise
                refused.add(HALF)
                say(f"speed: the networks do not compute in bfloat16 ({first_line(failure)})")
        if not seconds:
            raise failures[0]
        first = next(iter(seconds))
        hopeful = [way for way in seconds if way == first or seconds[way] < HOPELESS * min(seconds.values())]
        rounds = [{way: self.step(way) for way in hopeful} for _ in range(REPEATS)]
        seconds |= {way: min(one[way] for one in rounds) for way in hopeful}
        return {str(way): value for way, value in seconds.items()}

    def takes(self, way: Way) -> bool:
        """Whether the networks compute this way; they may have other code than others of their name and shapes."""
        try:
            return way.precision != HALF or self.step(way) > 0
        except Exception:  # `compare` says which
            return False

    def compiled(self, way: Way) -> tuple[float, float | None]:
        """Seconds of compilation and of a step; no step where there is no compiler."""
        began = time.monotonic()
        (compile_step if way.whole_step else compile_networks)(self.objective, self.graphs)
        try:
            self.step(way)
            seconds = time.monotonic() - began
            if wrong := wrong_gradient(self.objective, lambda exact: self.gradients(way, exact), self.graphs):
                raise RuntimeError(wrong)
            return seconds, min(self.step(way) for _ in range(REPEATS))
        except Exception as error:  # of many kinds, e.g. where there is no C++ compiler
            what = "a whole step" if way.whole_step else "the networks"
            say(f"speed: {what} cannot be compiled here ({first_line(error)})")
            undo_compilation(self.objective, self.graphs)
            return 0.0, None

    def step(self, way: Way) -> float:
        """Seconds of a step, forwards and backwards; parameters, buffers and random numbers stay as they are."""
        with no_trace(self.objective):
            self.wait()
            began = time.perf_counter()
            self.gradients(way)
            self.wait()
            return time.perf_counter() - began

    def gradients(self, way: Way, exact: bool = False) -> None:
        """Add those of a step to the parameters; its random numbers are the same each time.

        Args:
            exact: never in half precision.

        Raises:
            FloatingPointError: the loss is not finite in half precision.
        """
        half = way.precision == HALF and not exact
        objective, kind, threads = self.objective, self.device.type, torch.get_num_threads()
        torch.set_num_threads(way.threads)
        if way.compile and self.graphs:
            begin_step()
        try:
            with in_mode(objective, True), torch.random.fork_rng([self.device] if kind == "cuda" else []):
                progress = torch.zeros((), device=self.device) if way.whole_step else 0.0
                with torch.autocast(kind, torch.bfloat16, enabled=half):
                    loss: Tensor = objective(self.batch, progress)["loss"]
                loss.backward()
            if half and not loss.isfinite():
                raise FloatingPointError("the loss is not finite")
        finally:
            torch.set_num_threads(threads)

    def wait(self) -> None:
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)


def _settings(of: object) -> dict[str, Any]:
    """Settings of a module, or of a configuration, by name: weights of a loss, strides, widths."""
    plain = {name: _plain(value) for name, value in vars(of).items() if name != "training"}
    return {name: value for name, value in plain.items() if value is not None}


def _plain(value: object) -> Any:
    """A setting as JSON has it; None for what is no setting."""
    if isinstance(value, tuple | list):
        return [_plain(part) for part in value]
    if is_dataclass(value) and not isinstance(value, type | nn.Module):
        return _settings(value)
    return value if isinstance(value, int | float | str) else None


class _Kept(NamedTuple):
    """Content of a file: seconds of a step of each way, None where it cannot be compiled, and of compilation."""

    seconds: dict[str, float | None]
    compilation: float = 0.0


@contextmanager
def _kept(key: str) -> Iterator[dict[str, Any]]:
    """What was measured before, to be added to; for one process at a time. Nothing is kept where nothing can be."""
    folder = Path(os.environ.get("NISO_SPEED_CACHE") or cached("speed"))
    path = folder / f"{key}.json"
    with ExitStack() as stack:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            stack.enter_context(locked(folder, wait=True))
        except OSError:
            yield _Kept({})._asdict()
            return
        found = _read(path)
        yield found
        with suppress(OSError):
            write_json(path, found)


def _read(path: Path) -> dict[str, Any]:
    """What a file keeps; nothing where there is none, or it is damaged."""
    try:
        kept = parse(_Kept, parse_json(path.read_bytes()), path)
    except (OSError, ValueError, InputError):
        kept = _Kept({})
    sound = all(seconds is None or 0 < seconds < math.inf for seconds in kept.seconds.values())
    return (kept if sound and 0 <= kept.compilation < math.inf else _Kept({}))._asdict()
