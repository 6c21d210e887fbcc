"""A training step, to be timed: of any experiment, or of networks on random observations, in any way."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice
from typing import Any

from benchmarks.common import Clock

import torch  # isort: skip  # after benchmarks.common, which sets how its threads wait
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

import niso
from niso.config import Optimisation
from niso.experiments import EXPERIMENTS
from niso.networks import ConvConfig, ConvDecoder, ConvEncoder
from niso.objective import IsometryObjective
from niso.random import reseed, step_seed
from niso.training.compilation import begin_step, compile_networks, compile_step
from niso.training.loop import Phase
from niso.training.optimizer import make_optimizer, set_learning_rates, spectra
from niso.training.speed import Way

CPU = torch.device("cpu")
PLAIN = Way()
FORWARD = ("encoder", "decoder", "Φ", "map")
PARTS = ("data", *FORWARD, "losses and the rest", "backward", "optimiser")
"""Of a step that is not compiled as a whole; "forward", which is always noted, is their middle."""
TORUS_CHANNELS = 258
"""Of the torus's observations: 86 crops in colour."""
WARM = 3
"""Steps before those that are timed."""


def phase_of(experiment: str, preset: str, method: str = "niso", number: int = 0, device: torch.device = CPU) -> Phase:
    """A phase of an experiment, by its number; the earlier ones are not trained."""
    kind = EXPERIMENTS.find(experiment)
    torch.manual_seed(0)
    phases = kind(kind.settings_of(preset, method), method, 0, None, device).phases()
    return list(islice(phases, number + 1))[-1]


@dataclass(frozen=True)
class Size:
    """Networks, rank and batch of steps on random observations, with a table of eigenfunctions."""

    conv: ConvConfig | None
    """None: no networks, as of the torus, and as many points as the rank."""
    rank: int
    batch: int
    multiplicity: float = 0.1

    def phase(self, device: torch.device, optimisation: Optimisation | None = None) -> Phase:
        """Training on one pair, the same in all steps."""
        conv = self.conv
        torch.manual_seed(0)
        networks = [ConvEncoder(conv), ConvDecoder(conv)] if conv else [nn.Identity(), nn.Identity()]
        spectrum = niso.LearnedSpectrum(conv.points if conv else self.rank, self.rank)
        objective = IsometryObjective(niso.NeuralIsometry(*networks, spectrum), 0.5, self.multiplicity).to(device)
        shape = (conv.image_channels, *conv.image_size) if conv else (self.rank, TORUS_CHANNELS)
        pair = tuple(torch.rand(2, self.batch, *shape, device=device))
        return Phase("pretrain", objective, lambda _: pair, optimisation or Optimisation())


class Step:
    """A training step as a run makes it; each call is the next one.

    Args:
        phase: what is trained.
        way: precision, CPU threads and what is compiled: to CUDA graphs on a GPU. What is compiled already stays so.
        clock: gets the seconds of the step and its parts, see `PARTS`. Without one, nothing waits for a GPU.
    """

    def __init__(self, phase: Phase, way: Way = PLAIN, clock: Clock | None = None) -> None:
        torch.set_num_threads(way.threads)
        self.phase, self.way, self.clock, self.number = phase, way, clock, 0
        self.module = phase.objective
        """What is called: the objective, or what several processes make of it."""
        self.device = next(phase.objective.parameters()).device
        self.optimizer, self.spectra = make_optimizer(phase.objective, phase.optimisation), spectra(phase.objective)
        self.graphs = way.compile and self.device.type == "cuda"
        if way.whole_step:
            compile_step(phase.objective, self.graphs)
        elif way.compile:
            compile_networks(phase.objective, self.graphs)
        if clock and not way.whole_step:
            self._watch(clock)

    def __call__(self) -> None:
        phase, number = self.phase, self.number
        self.last = self.clock.now() if self.clock else 0.0
        began = self.last
        reseed(step_seed(0, number, phase.name), self.device)
        batch = phase.sampler(number)
        self._mark("data")
        self.optimizer.zero_grad()
        if self.graphs:
            begin_step()
        share = number / phase.optimisation.steps
        progress = torch.full((), share, device=self.device) if self.way.whole_step else share
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self.way.precision == "bf16-mixed"):
            loss = self.module(batch, progress)["loss"]
        self._mark("forward")
        loss.backward()
        self._mark("backward")
        set_learning_rates(self.optimizer, phase.optimisation, number)
        self.optimizer.step()
        for spectrum in self.spectra:
            spectrum.retract_()
        self._mark("optimiser")
        if self.clock:
            self.clock.add("step", self.last - began)
            times = self.clock.seconds
            if not self.way.whole_step:
                inside = sum(times[part][-1] for part in FORWARD)
                self.clock.add("losses and the rest", times["forward"][-1] - inside)
        self.number += 1

    def timed(self, repeats: int) -> dict[str, float]:
        """Median seconds of the step and its parts, by the clock, over so many steps."""
        assert self.clock
        for _ in range(WARM):
            self()
        self.clock.seconds.clear()
        for _ in range(repeats):
            self()
        return self.clock.medians()

    def _mark(self, part: str) -> None:
        """Note the seconds since the last mark."""
        if self.clock:
            before, self.last = self.last, self.clock.now()
            self.clock.add(part, self.last - before)

    def _watch(self, clock: Clock) -> None:
        """Note the seconds of the parts of a `niso.NeuralIsometry`'s forward pass."""
        model: Any = self.phase.objective.model
        for part, module in {"encoder": model.encoder, "decoder": model.decoder, "Φ": model.spectrum}.items():
            module.register_forward_pre_hook(lambda *_: setattr(self, "start", clock.now()))
            module.register_forward_hook(lambda *_, part=part: clock.add(part, clock.now() - self.start))
        solve = model._solve

        def timed(*arguments: Any) -> Any:
            start = clock.now()
            tau = solve(*arguments)
            clock.add("map", clock.now() - start)
            return tau

        model._solve = timed


def operations(step: Callable[[], object]) -> dict[str, int]:
    """Floating-point operations of a step in convolutions and in matrix products."""
    with FlopCounterMode(display=False) as counter:
        step()
    counts = counter.get_flop_counts().get("Global", {})
    conv = sum(number for name, number in counts.items() if "conv" in str(name))
    return {"conv": conv, "matmul": sum(counts.values()) - conv}
