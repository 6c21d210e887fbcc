"""Where the time of a training step goes, part by part and operation by operation, against its floor.

The floor is the time of the step's convolutions and matrix products at the rates measured here, in the networks' own
shapes, and of moving its activations, weights and moments once for each use at the measured bandwidth. SVDs are not in
it.

Run: python -m benchmarks.profile
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from benchmarks.common import Clock, Options, compare, table, write
from benchmarks.step import conv_rate, matmul_rate

import torch  # isort: skip  # after benchmarks.common, which sets how its threads wait
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

import niso
from niso.config import Optimisation
from niso.data.transformed import related
from niso.experiments import EXPERIMENTS
from niso.geometry import ACTIONS
from niso.networks import ConvConfig, ConvDecoder, ConvEncoder
from niso.objective import IsometryObjective
from niso.training.memory import keep_freed_memory
from niso.training.optimizer import make_optimizer, set_learning_rates, spectra

PARTS = ("data", "encoder", "decoder", "Φ", "map", "losses and the rest", "backward", "optimiser")
GROUPS = {
    "convolutions": ("conv",),
    "matrix products": ("::mm", "::bmm", "addmm", "baddbmm"),
    "SVD and solves": ("svd", "linalg"),
    "optimiser": ("adam",),
    "copies": ("copy_", "::cat", "clone", "contiguous", "index", "gather"),
}
"""Parts of the profiler's names of operations; an operation that matches none counts as "element by element"."""
PASSES = 4  # an activation is written and read forward, and so is its gradient backward
MOMENTS = 7 * 4  # bytes of AdamW for each weight: weight, two moments, each read and written, and the gradient


@dataclass
class Case:
    """What is trained."""

    objective: nn.Module
    sampler: Callable[[int], tuple[Tensor, ...]]
    optimisation: Optimisation
    conv: ConvConfig | None = None


def torus(device: torch.device) -> Case:
    """`niso run torus --preset standard`."""
    kind = EXPERIMENTS.find("torus")
    phase = next(iter(kind(kind.presets["standard"], "niso", 0, None, device).phases()))
    return Case(phase.objective, phase.sampler, phase.optimisation)


def convolutional(name: str, preset: str, device: torch.device) -> Case:
    """Networks, rank and batch of a preset, with a table of eigenfunctions. Only homNIST's data is drawn and warped."""
    config = EXPERIMENTS.find(name).presets[preset]
    conv, batch = config.conv, config.training.batch_size
    spectrum = niso.LearnedSpectrum(conv.points, config.rank, config.eigenvalues)
    model = niso.NeuralIsometry(ConvEncoder(conv), ConvDecoder(conv), spectrum).to(device)
    objective = IsometryObjective(model, 0.5, config.multiplicity)
    if name == "homnist":
        digits = torch.randint(256, (1000, *conv.image_size), dtype=torch.uint8, device=device)
        action = ACTIONS.find(config.action)()
        return Case(objective, lambda step: related(digits, batch, action), config.training, conv)
    pair = tuple(torch.rand(2, batch, conv.image_channels, *conv.image_size, device=device))
    return Case(objective, lambda step: pair, config.training, conv)


class Step:
    """A training step that notes when each part begins and ends."""

    def __init__(self, case: Case, options: Options) -> None:
        self.case, self.clock, self.number = case, Clock(options.device, options.cpu_time), 0
        self.optimizer = make_optimizer(case.objective, case.optimisation)
        self.spectra = spectra(case.objective)
        model = case.objective.model
        for part, module in {"encoder": model.encoder, "decoder": model.decoder, "Φ": model.spectrum}.items():
            module.register_forward_pre_hook(lambda *_: setattr(self, "start", self.clock.now()))
            module.register_forward_hook(lambda *_, part=part: self.clock.add(part, self.clock.now() - self.start))
        solve = model._solve

        def timed(*arguments: Any) -> Tensor:
            start = self.clock.now()
            tau = solve(*arguments)
            self.clock.add("map", self.clock.now() - start)
            return tau

        model._solve = timed

    def __call__(self) -> None:
        case, clock, times = self.case, self.clock, self.clock.seconds
        marks = [clock.now()]

        def mark(part: str) -> float:
            marks.append(clock.now())
            clock.add(part, marks[-1] - marks[-2])
            return marks[-1] - marks[-2]

        batch = case.sampler(self.number)
        mark("data")
        loss = case.objective(batch, 0.5)["loss"]
        marks.append(clock.now())
        inside = sum(times[part][-1] for part in ("encoder", "decoder", "Φ", "map"))
        clock.add("losses and the rest", marks[-1] - marks[-2] - inside)
        self.optimizer.zero_grad()
        loss.backward()
        mark("backward")
        set_learning_rates(self.optimizer, case.optimisation, self.number)
        self.optimizer.step()
        for spectrum in self.spectra:
            spectrum.retract_()
        mark("optimiser")
        clock.add("step", marks[-1] - marks[0])
        self.number += 1


def shares(step: Step) -> dict[str, float]:
    """Share of each group of operations in the time of a step, by torch's profiler."""
    with torch.profiler.profile() as profiler:
        step()
    seconds = dict.fromkeys([*GROUPS, "element by element"], 0.0)
    for event in profiler.key_averages():
        time = event.self_cpu_time_total if step.clock.device == "cpu" else event.self_device_time_total
        group = next(
            (g for g, names in GROUPS.items() if any(n in event.key.lower() for n in names)), "element by element"
        )
        seconds[group] += time
    total = sum(seconds.values())
    return {group: own / total for group, own in seconds.items()}


def work(step: Step) -> dict[str, float]:
    """Floating-point operations of a step in convolutions and matrix products, and the bytes it has to move."""
    numel = 0

    def count(_: nn.Module, __: Any, output: Any) -> None:
        nonlocal numel
        numel += output.numel() if isinstance(output, Tensor) else 0

    leaves = [m for m in step.case.objective.modules() if not any(True for _ in m.children())]
    handles = [leaf.register_forward_hook(count) for leaf in leaves]
    with FlopCounterMode(display=False) as counter:
        step()
    for handle in handles:
        handle.remove()
    flops = counter.get_flop_counts()["Global"]
    conv = sum(number for name, number in flops.items() if "conv" in str(name))
    weights = sum(p.numel() for p in step.case.objective.parameters())
    return {"conv": conv, "matmul": sum(flops.values()) - conv, "bytes": 4 * PASSES * numel + MOMENTS * weights}


def bandwidth(options: Options) -> float:
    """Bytes a second of copying a block larger than the caches."""
    source = torch.ones(16 * 2**20, device=options.device)
    target = torch.empty_like(source)
    return 8 * source.numel() / compare({"copy": lambda: target.copy_(source)}, options)["copy"]["median"]


def measure(case: Case, options: Options, rate: dict[str, float]) -> dict[str, Any]:
    """Median seconds of the parts, shares of operations, and the floor."""
    step = Step(case, options)
    for _ in range(2):
        step()
    step.clock.seconds.clear()
    for _ in range(options.repeats if case.conv else 5 * options.repeats):
        step()
    seconds = step.clock.medians()
    counted = work(step)
    factory = {"device": options.device, "dtype": torch.float32}
    images = 2 * case.optimisation.batch_size
    conv = conv_rate(case.conv, images, options, factory)[1] if case.conv else 1.0
    floor = {
        "arithmetic": counted["conv"] / conv / 1e9 + counted["matmul"] / rate["matmul"] / 1e9,
        "memory": counted["bytes"] / rate["bandwidth"],
    }
    return {"seconds": seconds, "work": counted, "conv": conv, "floor": floor, "operations": shares(step)}


def main(options: Options) -> None:
    """Profile the steps of the four experiments."""
    if options.device == "cpu":
        keep_freed_memory()
    options = replace(options, threads=options.threads[:1])
    torch.set_num_threads(options.threads[0])
    factory = {"device": options.device, "dtype": torch.float32}
    rate = {"matmul": matmul_rate(1024, options, factory), "bandwidth": bandwidth(options)}
    device = torch.device(options.device)
    cases = {"torus 16×16": torus(device)}
    cases |= {f"{name} small": convolutional(name, "small", device) for name in ("homnist", "shapes", "pose")}
    results = {name: measure(case, options, rate) for name, case in cases.items()}
    rows = [
        (
            name,
            *(1e3 * r["seconds"][key] for key in ("step", *PARTS)),
            *(1e3 * f for f in r["floor"].values()),
            f"{sum(r['floor'].values()) / r['seconds']['step']:.0%}",
        )
        for name, r in results.items()
    ]
    threads = "one thread" if options.threads == (1,) else f"{options.threads[0]} threads"
    columns = ("step", "total", *PARTS, "floor: arithmetic", "floor: memory", "floor / total")
    table(f"Median milliseconds of a training step's parts, {options.device}, {threads}, float32", columns, rows)
    groups = (*GROUPS, "element by element")
    rows = [(name, *(f"{r['operations'][group]:.0%}" for group in groups)) for name, r in results.items()]
    table("Share of each kind of operation in the step", ("step", *groups), rows)
    write("profile", options, {"rates": rate, "results": results})


if __name__ == "__main__":
    import tyro  # machines that run parts of this need not have it

    main(tyro.cli(Options, description=__doc__))
