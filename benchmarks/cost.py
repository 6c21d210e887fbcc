"""Cost of the spectral part against its sizes: rank k, points N and batch, with fitted exponents, in one figure.

The spectral part is Φ, projection, map, transport, unprojection, and the gradients of all of it.

Run: python -m benchmarks.cost
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tyro

from benchmarks.common import RESULTS, Options, table, take_turns, write

import torch  # isort: skip  # after benchmarks.common, which sets how its threads wait
import numpy as np

import niso

FIGURE = Path(__file__).parents[1] / "docs" / "images" / "cost.png"
CHANNELS = 32
BASE = {"rank": 32, "points": 400, "batch": 16}
AXES: dict[str, tuple[tuple[int, ...], dict[str, int]]] = {
    "rank": ((16, 32, 64, 128, 256, 512), {**BASE, "points": 512, "batch": 4}),
    "points": ((64, 128, 256, 512, 1024, 2048, 4096), BASE),
    "batch": ((1, 2, 4, 8, 16, 32, 64, 128, 256), BASE),
}
"""What is varied, and what the others are meanwhile."""
LABELS = {"rank": "rank k", "points": "points N", "batch": "batch"}


@dataclass(frozen=True)
class CostOptions(Options):
    """Options of the cost benchmark."""

    threads: tuple[int, ...] = (1,)
    """CPU threads; the first is taken."""
    repeats: int = 7
    """Timed repetitions of each size."""


def spectral_step(rank: int, points: int, batch: int, device: str) -> Any:
    """A call that does the spectral part of one training step."""
    torch.manual_seed(0)
    spectrum = niso.LearnedSpectrum(points, rank).to(device)
    z = torch.randn(2, batch, points, CHANNELS, device=device, requires_grad=True)

    def call() -> None:
        s = spectrum()
        a, b = s.project(z).unbind()
        tau = niso.isometric_map(a, b, s.eigenvalues)
        s.unproject(tau @ a).square().mean().backward()

    return call


def measure(axis: str, options: CostOptions) -> list[dict[str, Any]]:
    """Quartiles of the seconds at each size of an axis."""
    sizes, fixed = AXES[axis]
    calls = {str(size): spectral_step(**{**fixed, axis: size}, device=options.device) for size in sizes}
    seconds = take_turns(calls, options)
    return [
        {**fixed, axis: size, "quartiles": np.quantile(seconds[str(size)], [0.25, 0.5, 0.75]).tolist()}
        for size in sizes
    ]


def exponent(axis: str, results: list[dict[str, Any]]) -> float:
    """Slope in log-log over the larger half of the sizes, where fixed costs matter least."""
    half = results[len(results) // 2 :]
    sizes, medians = [r[axis] for r in half], [r["quartiles"][1] for r in half]
    return float(np.polyfit(np.log(sizes), np.log(medians), 1)[0])


def draw(results: dict[str, list[dict[str, Any]]], exponents: dict[str, float], path: Path) -> None:
    """One panel an axis: medians, quartiles, the fitted slope."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, panels = plt.subplots(1, len(results), figsize=(10, 3.2), sharey=True, layout="constrained")
    for panel, (axis, rows) in zip(panels, results.items(), strict=True):
        sizes = np.array([r[axis] for r in rows], float)
        low, middle, high = 1e3 * np.array([r["quartiles"] for r in rows]).T
        panel.fill_between(sizes, low, high, alpha=0.25, label="quartiles")
        panel.loglog(sizes, middle, "o-", label="median")
        half = slice(len(sizes) // 2, None)
        fit = sizes[half] ** exponents[axis]
        fit *= np.exp(np.mean(np.log(middle[half] / fit)))
        panel.loglog(sizes[half], fit, "k--", label=f"slope {exponents[axis]:.2f}")
        panel.set_xscale("log", base=2)
        panel.set_xticks(sizes, [f"{size:.0f}" for size in sizes], fontsize="small")
        panel.minorticks_off()
        fixed = ", ".join(f"{name} {value}" for name, value in AXES[axis][1].items() if name != axis)
        panel.set(xlabel=LABELS[axis], title=fixed)
        panel.legend(fontsize="small")
    panels[0].set_ylabel("milliseconds a step")
    figure.savefig(path, dpi=110)
    plt.close(figure)


def main(options: CostOptions) -> None:
    """Measure every axis, fit, and draw."""
    torch.set_num_threads(options.threads[0])
    results = {axis: measure(axis, options) for axis in AXES}
    exponents = {axis: exponent(axis, rows) for axis, rows in results.items()}
    rows = [(axis, r[axis], *(1e3 * q for q in r["quartiles"])) for axis in AXES for r in results[axis]]
    columns = ("varied", "size", "lower quartile", "median", "upper quartile")
    table(f"Spectral part with gradient, {options.device}, milliseconds", columns, rows)
    table("Fitted exponents", ("axis", "exponent"), list(exponents.items()))
    draw(results, exponents, RESULTS / f"{options.name}.png" if options.name else FIGURE)
    write("cost", options, {"channels": CHANNELS, "results": results, "exponents": exponents})


if __name__ == "__main__":
    main(tyro.cli(CostOptions, description=__doc__))
