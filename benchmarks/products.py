"""Large products of matrices on a CPU, and training steps made of them: by torch, and by `niso.linalg.products`.

Run: python -m benchmarks.products
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import tyro

from benchmarks.common import Options, compare, table, write

import torch  # isort: skip  # after benchmarks.common, which sets how its threads wait

from niso.experiments import EXPERIMENTS
from niso.linalg import products
from niso.random import reseed, step_seed
from niso.training.memory import keep_freed_memory
from niso.training.optimizer import make_optimizer

SHAPES = {
    "Laplacian, k = 256": (256, 256, 256),
    "head of homNIST": (2048, 128, 128),
    "its last layer": (64, 528, 1056),
    "transformer": (2352, 192, 576),
    "small": (64, 64, 64),
}
"""n, m and k of (n, m) @ (m, k)."""
STEPS = {
    "torus standard": ("torus", "standard", "niso", 0),
    "homnist quick, head": ("homnist", "quick", "niso-group", 1),
    "pose quick, vit": ("pose", "quick", "vit", 0),
    "pose quick, niso": ("pose", "quick", "niso", 0),
}
"""Experiment, preset, method and phase."""


@dataclass(frozen=True)
class ProductsOptions(Options):
    """Options of the benchmark."""

    repeats: int = 60


def step(experiment: str, preset: str, method: str, number: int) -> Callable[[], None]:
    """A training step of a phase."""
    kind, device = EXPERIMENTS.find(experiment), torch.device("cpu")
    torch.manual_seed(0)
    phases = iter(kind(kind.settings_of(preset, method), method, 0, None, device).phases())
    phase = [next(phases) for _ in range(number + 1)][-1]
    optimizer = make_optimizer(phase.objective, phase.optimisation)

    def call() -> None:
        reseed(step_seed(0, 0, phase.name), device)
        batch = phase.sampler(0)
        optimizer.zero_grad()
        phase.objective(batch, 0.5)["loss"].backward()
        optimizer.step()

    return call


def both(call: Callable[[], Any]) -> dict[str, Callable[[], Any]]:
    """A call by torch's library of products, and by oneDNN."""

    def chosen(available: bool) -> None:
        products.AVAILABLE = available
        call()

    return {"torch": partial(chosen, False), "niso": partial(chosen, True)}


def main(options: ProductsOptions) -> None:
    """Time products, then steps; the fastest of many, one thread."""
    torch.set_num_threads(1)
    keep_freed_memory()
    results: dict[str, Any] = {}
    for name, (n, m, k) in SHAPES.items():
        x, y = torch.randn(n, m), torch.randn(m, k)
        results[name] = compare(both(partial(products.product, x, y)), options)
    steps = {name: compare(both(step(*case)), options) for name, case in STEPS.items()}
    for title, found in (("product", results), ("step", steps)):
        rows = []
        for name, ways in found.items():
            torchs, ours = (1e3 * ways[way]["minimum"] for way in ("torch", "niso"))
            shape = " × ".join(map(str, SHAPES[name])) if title == "product" else ""
            rows.append((f"{name}: {shape}" if shape else name, torchs, ours, torchs / ours))
        table("Milliseconds, cpu, one thread, float32", (title, "torch", "niso", "times as fast"), rows)
    write("products", replace(options, threads=(1,)), {"products": results, "steps": steps})


if __name__ == "__main__":
    main(tyro.cli(ProductsOptions, description=__doc__))
