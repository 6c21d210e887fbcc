"""Random Procrustes problems, degenerate ones among them: every factor and every gradient must be finite.

Run: python -m tools.procrustes
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import tyro

from benchmarks.common import Named, table, write

import torch  # isort: skip  # after benchmarks.common, which sets how its threads wait
from torch import Tensor

import niso

SIDES = (1, 2, 3, 5, 8, 16, 32)
SCALES = (1e-8, 1e-4, 1.0, 1e4, 1e8)
DTYPES = (torch.float32, torch.float64)
KINDS = ("random", "rank-deficient", "repeated", "zero", "nearly repeated", "ill-conditioned", "integers")
"""Of the singular values, or the entries."""
BATCH = 512


@dataclass(frozen=True)
class Options(Named):
    """Options of the solves."""

    solves: int = 1_000_000
    """Problems, half of them in each precision."""
    seed: int = 0
    """Of the matrices."""
    device: str = "cpu"
    """cpu or cuda."""


def matrices(kind: str, side: int, dtype: torch.dtype, generator: torch.Generator, count: int = BATCH) -> Tensor:
    """Square matrices of one kind, of scale 1, on the CPU."""

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, dtype=torch.float64, generator=generator)

    if kind == "integers":
        return torch.randint(-1, 2, (count, side, side), generator=generator).to(dtype)
    if kind == "rank-deficient":
        rank = side // 2
        return (normal(count, side, rank) @ normal(count, rank, side)).to(dtype)
    if kind == "random":
        return normal(count, side, side).to(dtype)
    values = {
        "repeated": torch.ones(count, side, dtype=torch.float64),
        "zero": (normal(count, side) > 0).double(),
        "nearly repeated": 1 + 1e-7 * normal(count, side),
        "ill-conditioned": 10 ** -(12 * torch.rand(count, side, dtype=torch.float64, generator=generator)),
    }[kind]
    u, v = torch.linalg.qr(normal(2, count, side, side)).Q
    return ((u * values[:, None]) @ v.mT).to(dtype)


def solve(m: Tensor, generator: torch.Generator, special: bool) -> dict[str, int]:
    """Factors and gradients that are not finite, and factors that are not orthogonal."""
    leaf = m.requires_grad_()
    q = niso.polar(leaf, special=special)
    upstream = torch.randn(q.shape, dtype=torch.float64, generator=generator).to(q)
    (gradient,) = torch.autograd.grad(q, leaf, upstream)
    q = q.detach()
    identity = torch.eye(q.shape[-1], dtype=q.dtype, device=q.device)
    error = (q.mT @ q - identity).abs().amax((-2, -1))
    return {
        "factors_not_finite": int((~q.isfinite()).any(-1).any(-1).sum()),
        "factors_not_orthogonal": int((~(error < 100 * q.shape[-1] * torch.finfo(q.dtype).eps)).sum()),
        "gradients_not_finite": int((~gradient.isfinite()).any(-1).any(-1).sum()),
    }


def main(options: Options) -> None:
    """Solve in batches of one kind, size, scale and precision after the other."""
    generator, begin = torch.Generator().manual_seed(options.seed), time.monotonic()
    results = run(options, generator)
    seconds = round(time.monotonic() - begin, 1)
    rows = [(kind, *found.values()) for kind, found in results.items()]
    table("Procrustes solves with gradients", ("singular values", *results[KINDS[0]]), rows)
    write("procrustes", options, {"seconds": seconds, "results": results})


def run(options: Options, generator: torch.Generator) -> dict[str, dict[str, Any]]:
    """Counts of each kind."""
    names = ("solves", "factors_not_finite", "factors_not_orthogonal", "gradients_not_finite")
    results: dict[str, dict[str, Any]] = {kind: dict.fromkeys(names, 0) for kind in KINDS}
    cases = [(k, n, s, t) for n in SIDES for s in SCALES for t in DTYPES for k in KINDS]
    count = max(1, -(-options.solves // len(cases)))
    for index, (kind, side, scale, dtype) in enumerate(cases):
        for start in range(0, count, BATCH):
            size = min(BATCH, count - start)
            m = (scale * matrices(kind, side, dtype, generator, size)).to(options.device)
            found = solve(m, generator, special=bool((index + start // BATCH) % 2))
            results[kind]["solves"] += size
            for name, bad in found.items():
                results[kind][name] += bad
    return results


if __name__ == "__main__":
    main(tyro.cli(Options, description=__doc__))
