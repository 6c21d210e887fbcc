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
from benchmarks.steps import Step, phase_of

import torch  # isort: skip  # after benchmarks.common, which sets how its threads wait

from niso.linalg import products
from niso.training.memory import keep_freed_memory

SHAPES = {
    "Laplacian, k = 256": (256, 256, 256),
    "head of homNIST": (2048, 128, 128),
    "its last layer": (64, 528, 1056),
    "transformer": (2352, 192, 576),
    "small": (64, 64, 64),
    "gradient of a thin layer": (32, 4096, 32),
}
"""n, m and k of (n, m) @ (m, k)."""
TRANSPOSED = "gradient of a thin layer"
"""Whose first matrix lies in memory as its transpose, as inputs do in the gradient of a layer's weights."""
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


def ways(call: Callable[[], Any]) -> dict[str, Callable[[], Any]]:
    """A call as niso makes it without oneDNN, and with it."""

    def chosen(available: bool) -> None:
        products.AVAILABLE = available
        call()

    return {"torch": partial(chosen, False), "niso": partial(chosen, True)}


def milliseconds(times: dict[str, dict[str, float]]) -> list[float]:
    """Of each way, and how many times as fast niso is."""
    fastest = [1e3 * time["minimum"] for time in times.values()]
    return [*fastest, fastest[0] / fastest[1]]


def main(options: ProductsOptions) -> None:
    """Time products, then steps; the fastest of many, one thread."""
    options = replace(options, device="cpu", threads=(1,))
    torch.set_num_threads(1)
    keep_freed_memory()
    found = {}
    for name, (n, m, k) in SHAPES.items():
        x, y = torch.randn(n, m), torch.randn(m, k)
        x = x.mT.contiguous().mT if name == TRANSPOSED else x
        found[name] = compare(
            ways(partial(products.product, x, y)) | {"oneDNN": partial(products.by_onednn, x, y)}, options
        )
    steps = {name: compare(ways(Step(phase_of(*case))), options) for name, case in STEPS.items()}
    title = "Milliseconds, the fastest of many, cpu, one thread, float32"
    rows = [(f"{name}: {' × '.join(map(str, SHAPES[name]))}", *milliseconds(times)) for name, times in found.items()]
    table(title, ("product", "torch", "niso", "oneDNN", "niso, times as fast"), rows)
    rows = [(name, *milliseconds(times)) for name, times in steps.items()]
    table(title, ("step", "torch", "niso", "times as fast"), rows)
    write("products", options, {"products": found, "steps": steps})


if __name__ == "__main__":
    main(tyro.cli(ProductsOptions, description=__doc__))
