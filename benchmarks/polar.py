"""The polar factor and its gradient: `niso.polar`, the root of the Gram matrix, as fields have it, matrix products
alone, as compiled programs have it on a GPU, and what differentiating `torch.linalg.svd` would cost.

Run: python -m benchmarks.polar
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from benchmarks.common import Options, compare, table, write

import torch  # isort: skip  # after benchmarks.common, which sets how its threads wait
from torch import Tensor

import niso
from niso.linalg import newton_schulz

SHAPES = (
    (16, 32, 32),
    (16, 64, 64),
    (8, 128, 128),
    (1, 256, 256),
    (1, 64, 16),
    (1, 100, 32),
    (1, 400, 32),
    (1, 1024, 64),
)  # maps of homNIST, torus 8×8 or sphere, poses; torus 16×16; Φ of the sphere, of homNIST at small and paper, of a mesh
CONDITIONS = (1e1, 1e3, 1e6)


def through_svd(m: Tensor) -> Tensor:
    """U Vᵀ by the SVD, differentiated by torch."""
    u, _, vh = torch.linalg.svd(m, full_matrices=False)
    return u @ vh


def through_gram(m: Tensor) -> Tensor:
    """M (MᵀM)^(−1/2) in float64, for matrices of full rank."""
    wide = m.double()
    return (wide @ niso.inverse_root(wide.mT @ wide)).to(m.dtype)


def through_driver(m: Tensor, driver: str) -> Tensor:
    """As `through_svd`, forward, by one of cuSOLVER's algorithms."""
    u, _, vh = torch.linalg.svd(m.detach(), full_matrices=False, driver=driver)
    return u @ vh


CALLS: dict[str, Callable[[Tensor], Tensor]] = {
    "svd": niso.polar,
    "Gram root": through_gram,
    "products": newton_schulz.polar,
    "autograd of svd": through_svd,
}
DRIVERS = {driver: partial(through_driver, driver=driver) for driver in ("gesvdj", "gesvda", "gesvd")}
"""Forward, on a GPU alone."""


def accuracy(device: str, side: int = 128) -> list[dict[str, Any]]:
    """Largest error of an entry of the factor of float32 matrices, against the SVD in float64."""
    results = []
    for condition in CONDITIONS:
        torch.manual_seed(0)
        u, v = torch.linalg.qr(torch.randn(2, 8, side, side, dtype=torch.float64)).Q
        s = torch.logspace(0, -torch.tensor(condition).log10().item(), side, dtype=torch.float64)
        m = (u * s @ v.mT).float().to(device)
        exact = niso.polar(m.double())
        errors: dict[str, float | None] = {}
        for name, call in CALLS.items():
            try:
                errors[name] = (call(m) - exact).abs().max().item()
            except torch.linalg.LinAlgError:  # not of full rank to the Gram matrix's precision
                errors[name] = None
        results.append({"side": side, "condition": condition, "error": errors})
    return results


def orthogonality(call: Callable[[Tensor], Tensor], device: str, side: int = 128) -> float:
    """Largest entry of QᵀQ − I for float32 matrices of rank side / 2, as where latents have too few channels."""
    torch.manual_seed(0)
    a, b = torch.randn(2, 8, side, side // 2, device=device)
    q = call(a @ b.mT)
    return (q.mT @ q - torch.eye(side, device=device)).abs().max().item()


def main(options: Options) -> None:
    """Time forward and backward at the sizes of the experiments, and measure the accuracy in float32."""
    results = []
    for threads in options.threads:
        torch.set_num_threads(threads)
        for shape in SHAPES:
            torch.manual_seed(0)
            m = torch.randn(shape, device=options.device, requires_grad=True)
            upstream = torch.randn_like(m)
            calls = {n: lambda m=m, g=upstream, f=f: torch.autograd.grad(f(m), m, g) for n, f in CALLS.items()}
            calls["svd, forward"] = lambda m=m: niso.polar(m.detach())
            times = compare(calls, options)
            results.append({"threads": threads, "shape": shape, "seconds": times})
    rows = []
    for r in results:
        name = " × ".join(map(str, r["shape"]))
        rows.append((name, r["threads"], *(1e3 * r["seconds"][call]["median"] for call in calls)))
    where = f"{options.device}, median milliseconds"
    table(f"Polar factor, with gradient where not said, {where}", ("matrices", "threads", *calls), rows)
    accuracies = accuracy(options.device)
    rows = [
        (f"{r['condition']:.0e}", *("fails" if e is None else f"{e:.1e}" for e in r["error"].values()))
        for r in accuracies
    ]
    table("Largest error of an entry, 8 × 128², float32 input", ("condition", *CALLS), rows)
    write("polar", options, {"results": results, "accuracy": accuracies})


if __name__ == "__main__":
    import tyro  # machines that run parts of this need not have it

    main(tyro.cli(Options, description=__doc__))
