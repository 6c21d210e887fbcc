"""The polar factor and its gradient: `niso.polar` against differentiating through `torch.linalg.svd`.

Run: python -m benchmarks.polar
"""

from __future__ import annotations

import tyro

from benchmarks.common import Options, compare, table, write

import torch  # isort: skip  # after benchmarks.common, which sets how its threads wait
from torch import Tensor

import niso

SHAPES = (
    (16, 32),
    (16, 64),
    (8, 128),
    (1, 256),
)  # batch and side: homNIST, torus 8×8 or sphere, poses, torus 16×16


def through_svd(m: Tensor) -> Tensor:
    """U Vᵀ by the SVD, differentiated by torch."""
    u, _, vh = torch.linalg.svd(m, full_matrices=False)
    return u @ vh


def main(options: Options) -> None:
    """Time forward and backward at the sizes of the experiments."""
    results = []
    for threads in options.threads:
        torch.set_num_threads(threads)
        for batch, side in SHAPES:
            torch.manual_seed(0)
            m = torch.randn(batch, side, side, device=options.device, requires_grad=True)
            upstream = torch.randn_like(m)
            calls = {
                "polar": lambda m=m, g=upstream: torch.autograd.grad(niso.polar(m), m, g),
                "svd": lambda m=m, g=upstream: torch.autograd.grad(through_svd(m), m, g),
                "polar forward": lambda m=m: niso.polar(m.detach()),
            }
            times = compare(calls, options.device, options.repeats)
            results.append({"threads": threads, "batch": batch, "side": side, "seconds": times})
    rows = []
    for r in results:
        milliseconds = [1e3 * r["seconds"][call]["median"] for call in calls]
        ratio = milliseconds[1] / milliseconds[0]
        rows.append((f"{r['batch']} × {r['side']}²", r["threads"], *milliseconds, ratio))
    columns = ("matrices", "threads", "polar, ms", "svd, ms", "polar forward, ms", "svd / polar")
    table(f"Polar factor, forward and backward, {options.device}", columns, rows)
    write("polar", options, {"results": results})


if __name__ == "__main__":
    main(tyro.cli(Options, description=__doc__))
