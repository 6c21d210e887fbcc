"""The Laplacian step, batch 1: what each way to compute its expensive parts costs, and whole steps.

Run: python -m benchmarks.laplacian
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import Any

import tyro

from benchmarks.common import Options, compare, table, write
from benchmarks.polar import through_gram
from benchmarks.steps import Step, phase_of

import torch  # isort: skip  # after benchmarks.common, which sets how its threads wait
from torch import Tensor

import niso
from niso.spectrum.rotation import retract_
from niso.training.memory import keep_freed_memory
from niso.training.speed import Way

RANKS = (64, 256)
CONDITION = 1e6
"""Of the masked covariances of the torus at 16×16, in the course of training."""
STEPS = ("torus quick", "torus standard", "torus field-16", "sphere quick", "sphere standard", "sphere field-16")


@dataclass(frozen=True)
class LaplacianOptions(Options):
    """Options of the benchmark."""

    steps: tuple[str, ...] = STEPS
    """Experiments and presets."""
    compiled: tuple[str, ...] = ()
    """Those of which the whole step is also compiled."""


def halley(m: Tensor) -> Tensor:
    """Polar factor by dynamically weighted Halley iterations (Nakatsukasa, Bai, Gygi 2010), by QR and Cholesky factors.

    Its weights take the condition number as known. It has no gradient: that needs a decomposition of its own.
    """
    x, low = m / torch.linalg.matrix_norm(m), 1 / (CONDITION * m.shape[-1] ** 0.5)
    identity = torch.eye(m.shape[-1])
    while 1 - low > 1e-6:
        root = (4 * (1 - low**2) / low**4) ** (1 / 3)
        a = (1 + root) ** 0.5 + 0.5 * (8 - 4 * root + 8 * (2 - low**2) / (low**2 * (1 + root) ** 0.5)) ** 0.5
        b = (a - 1) ** 2 / 4
        c = a + b - 1
        if c > 100:
            above, below = torch.linalg.qr(torch.cat([c**0.5 * x, identity])).Q.split(len(x))
            x = b / c * x + (a - b / c) / c**0.5 * above @ below.mT
        else:
            inverse = torch.cholesky_inverse(torch.linalg.cholesky(identity + c * x.mT @ x))
            x = b / c * x + (a - b / c) * x @ inverse
        low = low * (a + b * low**2) / (1 + c * low**2)
    return x


def dense(frame: Tensor, basis: Tensor) -> Tensor:
    """F cayley(W) of the whole skew matrix, and a Newton–Schulz step of the third order."""
    rank, w, identity = basis.shape[1], torch.zeros_like(frame), torch.eye(len(frame))
    w[:, :rank] = basis
    w[:rank, :rank] /= 2
    w = w - w.mT
    turned = frame @ torch.linalg.solve(identity - w / 2, identity + w / 2)
    product = turned.mT @ turned
    return turned @ (15 * identity - 10 * product + 3 * product @ product) / 8


def parts(options: LaplacianOptions) -> dict[str, Any]:
    """Seconds of the map's polar factor and of the retraction, each way."""
    results = {}
    for rank in RANKS:
        torch.manual_seed(0)
        u, v = torch.linalg.qr(torch.randn(2, rank, rank)).Q
        m = (u * torch.logspace(0, -6, rank) @ v.mT).requires_grad_()
        g, exact = torch.randn(rank, rank), niso.polar(m.detach().double())
        calls: dict[str, Any] = {
            "SVD": lambda m=m: niso.polar(m.detach()),
            "SVD, with gradient": lambda m=m, g=g: torch.autograd.grad(niso.polar(m), m, g),
            "root of the Gram matrix, with gradient": lambda m=m, g=g: torch.autograd.grad(through_gram(m), m, g),
            "Halley": lambda m=m: halley(m.detach()),
        }
        for points in sorted({rank, 4 * rank if rank < 256 else rank}):
            frame, basis = torch.linalg.qr(torch.randn(points, points)).Q, 0.01 * torch.randn(points, rank)
            calls[f"retraction, {points} points: dense"] = lambda f=frame, b=basis: dense(f, b)
            calls[f"retraction, {points} points: block"] = lambda f=frame, b=basis: retract_(f.clone(), b.clone())
        errors = {
            name: (function(m.detach()).double() - exact).abs().max().item()
            for name, function in {"SVD": niso.polar, "root of the Gram matrix": through_gram, "Halley": halley}.items()
        }
        results[str(rank)] = {"seconds": compare(calls, options), "errors": errors}
    return results


def main(options: LaplacianOptions) -> None:
    """Time the parts, then whole steps, on one thread of the CPU."""
    options = replace(options, device="cpu", threads=(1,))
    torch.set_num_threads(1)
    keep_freed_memory()
    found = parts(options)
    names = [name for result in found.values() for name in result["seconds"]]
    rows = [
        (name, *(1e3 * r["seconds"][name]["median"] if name in r["seconds"] else "—" for r in found.values()))
        for name in dict.fromkeys(names)
    ]
    table(f"Milliseconds, cpu, one thread, float32, condition {CONDITION:.0e}", ("k", *found), rows)
    rows = [(name, *(f"{r['errors'][name]:.0e}" for r in found.values())) for name in found["64"]["errors"]]
    table("Largest error of an entry of the polar factor", ("k", *found), rows)
    calls, compilation = {case: Step(phase_of(*case.split())) for case in options.steps}, {}
    for case in options.compiled:
        calls[f"{case}, compiled"] = Step(phase_of(*case.split()), Way(compile=True, whole_step=True))
        began = time.process_time()
        calls[f"{case}, compiled"]()
        compilation[case] = time.process_time() - began
    steps = compare(calls, options)
    table("Milliseconds of a step", ("step", "ms"), [(case, 1e3 * s["median"]) for case, s in steps.items()])
    write("laplacian", options, {"parts": found, "steps": steps, "compilation": compilation})


if __name__ == "__main__":
    main(tyro.cli(LaplacianOptions, description=__doc__))
