"""Where the time of a training step goes, part by part and operation by operation, against its floor.

The floor is the time of the step's convolutions and matrix products at the rates measured here, in the networks' own
shapes, and of moving its activations, weights and moments once for each use at the measured bandwidth. SVDs are not in
it.

Run: python -m benchmarks.profile
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from benchmarks.common import Clock, Options, compare, table, write
from benchmarks.step import conv_rate, matmul_rate
from benchmarks.steps import PARTS, Size, Step, operations, phase_of

import torch  # isort: skip  # after benchmarks.common, which sets how its threads wait
from torch import Tensor, nn

from niso.data.transformed import related
from niso.experiments import EXPERIMENTS
from niso.geometry import ACTIONS
from niso.networks import ConvConfig
from niso.training.loop import Phase
from niso.training.memory import keep_freed_memory
from niso.training.speed import Way

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


Case = tuple[Phase, ConvConfig | None]
"""What is trained, and its networks."""


def convolutional(name: str, preset: str, device: torch.device) -> tuple[Phase, ConvConfig]:
    """Networks, rank and batch of a preset, with a table of eigenfunctions. Only homNIST's data is drawn and warped."""
    config = EXPERIMENTS.find(name).presets[preset]
    conv, batch = config.conv, config.training.batch_size
    phase = Size(conv, config.rank, batch, config.multiplicity).phase(device, config.training)
    if name == "homnist":
        digits = torch.randint(256, (1000, *conv.image_size), dtype=torch.uint8, device=device)
        action = ACTIONS.find(config.action)()
        phase = replace(phase, sampler=lambda _: related(digits, batch, action))
    return phase, conv


def shares(step: Step) -> dict[str, float]:
    """Share of each group of operations in the time of a step, by torch's profiler."""
    with torch.profiler.profile() as profiler:
        step()
    seconds = dict.fromkeys([*GROUPS, "element by element"], 0.0)
    for event in profiler.key_averages():
        time = event.self_cpu_time_total if step.device.type == "cpu" else event.self_device_time_total
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

    leaves = [m for m in step.phase.objective.modules() if not any(True for _ in m.children())]
    handles = [leaf.register_forward_hook(count) for leaf in leaves]
    arithmetic = operations(step)
    for handle in handles:
        handle.remove()
    weights = sum(p.numel() for p in step.phase.objective.parameters())
    return {**arithmetic, "bytes": 4 * PASSES * numel + MOMENTS * weights}


def bandwidth(options: Options) -> float:
    """Bytes a second of copying a block larger than the caches."""
    source = torch.ones(16 * 2**20, device=options.device)
    target = torch.empty_like(source)
    return 8 * source.numel() / compare({"copy": lambda: target.copy_(source)}, options)["copy"]["median"]


def measure(case: Case, options: Options, rate: dict[str, float]) -> dict[str, Any]:
    """Median seconds of the parts, shares of operations, and the floor."""
    phase, networks = case
    step = Step(phase, Way(threads=options.threads[0]), Clock(options.device, options.cpu_time))
    seconds = step.timed(options.repeats if networks else 5 * options.repeats)
    counted = work(step)
    factory = {"device": options.device, "dtype": torch.float32}
    images = 2 * phase.optimisation.batch_size
    conv = conv_rate(networks, images, options, factory)[1] if networks else 1.0
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
    cases: dict[str, Case] = {"torus 16×16": (phase_of("torus", "standard", device=device), None)}
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
