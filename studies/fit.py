"""What `niso.fit` finds in signals under circular shifts, the README's first example: python -m studies.fit.

1,000 smooth signals, each paired with itself shifted, by how much is never told. The eigenfunctions that it learns
should be Fourier modes: the energy of each in its best frequency is 1 then.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import numpy as np
import tyro

import niso
from benchmarks.common import Named, table, write


@dataclass(frozen=True)
class Options(Named):
    """Options of the study of `niso.fit`."""

    seeds: tuple[int, ...] = (0, 1, 2)
    """Of the signals and of the training."""
    signals: int = 1_000
    """Number of signals."""
    length: int = 32
    """Samples of a signal."""
    steps: int | None = None
    """Training steps, by default those of `niso.fit`."""


def pairs(options: Options, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Smooth signals, each at a place of its own, and the same shifted."""
    random = np.random.default_rng(seed)
    waves = options.length // 2 + 1
    x = np.fft.irfft(random.standard_normal((options.signals, waves)) / np.arange(1, waves + 1), n=options.length)

    def shifted(signals: np.ndarray) -> np.ndarray:
        return np.stack([np.roll(signal, random.integers(options.length)) for signal in signals])

    x = shifted(x).astype(np.float32)
    return x, shifted(x)


def fit(options: Options, seed: int) -> dict[str, Any]:
    """Energy of the eigenfunctions in Fourier planes, and the time of the whole call."""
    x, tx = pairs(options, seed)
    steps = {} if options.steps is None else {"steps": options.steps}
    begin = time.monotonic()
    fitted = niso.fit(x, tx, seed=seed, progress=False, **steps)
    seconds = time.monotonic() - begin
    energy = abs(np.fft.rfft(fitted.spectrum.eigenfunctions, axis=0)) ** 2
    energy[1 : (options.length + 1) // 2] *= 2  # of the frequency and its negative
    share = energy.max(0) / energy.sum(0)
    return {"mean": float(share.mean()), "worst": float(share.min()), "seconds": seconds, "metrics": fitted.metrics}


def main(options: Options) -> None:
    """Fit to the signals of every seed."""
    results = {str(seed): fit(options, seed) for seed in options.seeds}
    rows = [(seed, found["mean"], found["worst"], found["seconds"]) for seed, found in results.items()]
    table("Energy in Fourier planes", ("seed", "mean", "worst", "seconds"), rows)
    write("fit", options, {"results": results})


if __name__ == "__main__":
    main(tyro.cli(Options, description=__doc__))
