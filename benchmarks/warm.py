"""Polar factors from the last step's: how far their matrices move in training, and what a warm start saves.

Newton–Schulz iterations that start at A P, with the P = (AᵀA)^(−1/2) of the last step, give the polar factor of A P,
which is not that of A unless P commutes with AᵀA. What does give it is a P that is corrected until P AᵀA P = I: by
Newton–Schulz steps, or by Newton's, for which the singular vectors of an earlier step will do.

Run: python -m benchmarks.warm
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import pairwise
from statistics import median
from typing import Any

import tyro

from benchmarks.common import Options, compare, table, write
from benchmarks.steps import Step, phase_of

import torch  # isort: skip  # after benchmarks.common, which sets how its threads wait
from torch import Tensor

import niso
import niso.functional_map
import niso.spectrum.table
from niso.linalg.products import product
from niso.training.memory import keep_freed_memory

CALLERS = {"Φ": niso.spectrum.table, "τ": niso.functional_map}
"""Modules whose matrices are watched."""
SHAPES = ((256, 64), (1024, 64), (64, 64), (16, 64, 64))
MOVE = 0.005
"""By what matrices of the times move, relative to their smallest singular value; about as Φ's of the sphere do."""
MOST = 20
"""Corrections after which a start counts as none."""


@dataclass(frozen=True)
class WarmOptions(Options):
    """Options of the benchmark."""

    repeats: int = 101
    """Timed repetitions; the median is reported, and the minimum beside it."""
    cases: tuple[str, ...] = (
        "torus quick",
        "torus standard",
        "sphere quick",
        "sphere standard",
        "sphere paper",
    )
    """Experiments and presets."""
    steps: int = 1_500
    """Training steps, at whose end matrices are watched."""
    watched: int = 50
    """The last steps, of which the medians are."""


class Warm:
    """`niso.polar` of tall matrices of full rank, by Newton's method from the last call's; by an SVD where that is far.

    With AᵀA = V Γ Vᵀ in the singular vectors V of the last SVD, R ← R + (I − R Γ R)ᵢⱼ / (σᵢ + σⱼ) tends to Γ^(−1/2).
    It takes an error to about its product with how far matrices have moved since the SVD.
    """

    def __init__(self, most: int = 5) -> None:
        self.most, self.solves, self.calls = most, 0, 0
        self.v, self.sums, self.root = (torch.empty(0) for _ in range(3))

    def __call__(self, m: Tensor, special: bool = False, damping: float = 0.0) -> Tensor:
        self.calls += 1
        if not (self.v.numel() and self.converges(m.detach())):
            self.solves += 1
            _, s, vh = torch.linalg.svd(m.detach(), full_matrices=False)
            self.v, self.sums, self.root = vh.mT.contiguous(), s[..., :, None] + s[..., None, :], (1 / s).diag_embed()
            if not self.converges(m.detach()):
                return niso.polar(m, special, damping)  # too ill-conditioned
        factor: Tensor = _Factor.apply(m, self)
        return factor

    def converges(self, m: Tensor) -> bool:
        """Correct the root R for these matrices; whether that succeeded."""
        self.turned, root, tolerance = product(m, self.v), self.root, 32 * torch.finfo(m.dtype).eps
        self.gram = product(self.turned.mT, self.turned)
        identity = torch.eye(m.shape[-1], dtype=m.dtype)
        for _ in range(self.most + 1):
            error = identity - product(root, product(self.gram, root))
            if bool(error.abs().amax() <= tolerance):
                self.root = root
                return True
            root = root + (error + error.mT) / (2 * self.sums)
        return False


class _Factor(torch.autograd.Function):
    """Q = A V R Vᵀ, and its exact gradient: the Sylvester equation of H = QᵀA is solved by corrections, too."""

    @staticmethod
    def forward(ctx: Any, m: Tensor, warm: Warm) -> Tensor:
        q = product(product(warm.turned, warm.root), warm.v.mT)
        ctx.sums = warm.sums
        ctx.save_for_backward(q, warm.v, warm.root, product(warm.gram, warm.root))
        return q

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        (grad,), (q, v, root, h) = gradients, ctx.saved_tensors
        h = (h + h.mT) / 2
        a = product(v.mT, product(product(q.mT, grad), v))
        rest = a - a.mT
        x, tolerance = torch.zeros_like(rest), 8 * torch.finfo(rest.dtype).eps * rest.abs().amax()
        for _ in range(MOST):
            x = x + rest / ctx.sums
            hx = product(h, x)
            rest = a - a.mT - hx + hx.mT  # X H = −(H X)ᵀ
            if bool(rest.abs().amax() <= tolerance):
                break
        back = product(v, product(x - product(a, root), v.mT))
        return product(q, back) + product(grad, product(v, product(root, v.mT))), None


def corrections(m: Tensor, start: tuple[Tensor, Tensor, Tensor], newton: bool) -> int | None:
    """Steps until the factor of m is exact to 1e-6, from the SVD of another matrix; None after `MOST`.

    Args:
        newton: Newton's steps, not Newton–Schulz steps.
    """
    _, s, vh = start
    exact, gram, root = niso.polar(m), m.mT @ m, vh.mT / s @ vh
    for number in range(MOST + 1):
        if bool((m @ root - exact).abs().amax() <= 1e-6):
            return number
        error = torch.eye(len(s), dtype=m.dtype) - root @ gram @ root
        if newton:
            root = root + vh.mT @ (vh @ error @ vh.mT / (s[:, None] + s)) @ vh
        else:
            root = root + (root @ error + error @ root) / 4
    return None


def moved(matrices: list[Tensor]) -> dict[str, Any]:
    """Medians over consecutive matrices: condition, how far one is from the next, and corrections from it."""
    found: dict[str, list[float]] = {}
    counts: dict[str, list[int | None]] = {"Newton–Schulz": [], "Newton": []}
    for before, m in pairwise(matrices):
        u, s, vh = start = torch.linalg.svd(before, full_matrices=False)
        root, values = vh.mT / s @ vh, torch.linalg.svdvals(m)
        here = {
            "condition": values[0] / values[-1],
            "move": torch.linalg.matrix_norm(root @ m.mT @ m @ root - torch.eye(len(s), dtype=m.dtype), 2),
            "distance": torch.linalg.matrix_norm(niso.polar(m) - u @ vh, 2),
            "naive": (niso.polar(m @ root) - niso.polar(m)).abs().amax(),
        }
        for name, value in here.items():
            found.setdefault(name, []).append(float(value))
        for name, values_of in counts.items():
            values_of.append(corrections(m, start, name == "Newton"))
    medians: dict[str, Any] = {name: median(values) for name, values in found.items()}
    for name, numbers in counts.items():
        medians[name] = None if None in numbers else median(number for number in numbers if number is not None)
    return medians


def train(case: str, options: WarmOptions) -> tuple[Callable[[], None], dict[str, list[Tensor]]]:
    """Training steps of a case, and the matrices of the last ones, the first of each batch, in float64."""
    call, seen = Step(phase_of(*case.split())), dict[str, list[Tensor]]()
    for number in range(options.steps):
        if number == options.steps - options.watched:
            seen = {name: [] for name in CALLERS}
        with_factor(call, {name: Watched(matrices) for name, matrices in seen.items()})
    return call, {name: matrices for name, matrices in seen.items() if matrices}


class Watched:
    """`niso.polar`, which keeps the first matrix of each step."""

    def __init__(self, matrices: list[Tensor]) -> None:
        self.matrices, self.called = matrices, False

    def __call__(self, m: Tensor, special: bool = False, damping: float = 0.0) -> Tensor:
        if not self.called:
            self.matrices.append(m.detach().flatten(0, -3)[0].double() if m.ndim > 2 else m.detach().double())
        self.called = True
        return niso.polar(m, special, damping)


def with_factor(call: Callable[[], None], factors: dict[str, Callable[..., Tensor]]) -> None:
    """A step in which callers take other functions for `niso.polar`."""
    for name, factor in factors.items():
        vars(CALLERS[name])["polar"] = factor
    try:
        call()
    finally:
        for name in factors:
            vars(CALLERS[name])["polar"] = niso.polar


def pair(shape: tuple[int, ...], dtype: torch.dtype) -> tuple[Tensor, Tensor, Tensor]:
    """Matrices of condition 10^½, these after a step, and a gradient."""
    torch.manual_seed(0)
    *_, n, k = shape
    q, change, grad = torch.randn(3, *shape, dtype=torch.float64)
    v = torch.linalg.qr(torch.randn(k, k, dtype=torch.float64)).Q
    before = torch.linalg.qr(q).Q * torch.logspace(0, -0.5, k, dtype=torch.float64) @ v.mT
    after = before + MOVE * 10**-0.5 / (n**0.5 + k**0.5) * change
    return before.to(dtype), after.to(dtype), grad.to(dtype)


def differentiated(polar: Callable[[Tensor], Tensor], m: Tensor, grad: Tensor) -> tuple[Tensor, Tensor]:
    """The factor and the gradient."""
    m = m.detach().requires_grad_()
    q = polar(m)
    return q.detach(), torch.autograd.grad(q, m, grad)[0]


def in_turn(before: Tensor, after: Tensor, grad: Tensor, polar: Callable[[Tensor], Tensor]) -> Callable[[], Any]:
    """Calls that get either matrix by turns, as steps would."""
    matrices = [before, after]

    def call() -> tuple[Tensor, Tensor]:
        matrices.reverse()
        return differentiated(polar, matrices[0], grad)

    return call


def factors(options: Options) -> list[dict[str, Any]]:
    """Seconds with gradient, and largest errors of an entry, relative to the largest, against the SVD in float64."""
    results = []
    for shape in SHAPES:
        errors: dict[str, Any] = {}
        for dtype in (torch.float32, torch.float64):
            before, after, grad = pair(shape, dtype)
            exact = differentiated(niso.polar, after.double(), grad.double())
            warm = Warm()
            warm(before)
            for name, polar in {"SVD": niso.polar, "warm": warm}.items():
                parts = zip(differentiated(polar, after, grad), exact, strict=True)
                here = [((part - right).abs().amax() / right.abs().amax()).item() for part, right in parts]
                errors[f"{name}, {str(dtype).removeprefix('torch.')}"] = here
        before, after, grad = pair(shape, torch.float32)
        calls = {"SVD": in_turn(before, after, grad, niso.polar), "warm": in_turn(before, after, grad, Warm())}
        results.append({"shape": shape, "seconds": compare(calls, options), "errors": errors})
    return results


def main(options: WarmOptions) -> None:
    """Watch trainings, then time factors and whole steps, on one thread of the CPU."""
    options = replace(options, device="cpu", threads=(1,))
    torch.set_num_threads(1)
    keep_freed_memory()
    watched, steps = [], []
    for case in options.cases:
        call, matrices = train(case, options)
        watched += [
            {"case": case, "matrix": name, "shape": tuple(found[0].shape), **moved(found)}
            for name, found in matrices.items()
        ]
        if "Φ" in matrices:
            other, warm = train(case, options)[0], Warm()
            calls = {"SVD": call, "warm": lambda c=other, w=warm: with_factor(c, {"Φ": w})}
            seconds = compare(calls, options)
            steps.append({"case": case, "seconds": seconds, "solves": warm.solves, "calls": warm.calls})
    rows = [
        (
            f"{r['case']}, {r['matrix']} {r['shape'][0]} × {r['shape'][1]}",
            *(f"{r[key]:.1e}" for key in ("condition", "move", "distance", "naive")),
            *(f"over {MOST}" if r[key] is None else f"{r[key]:g}" for key in ("Newton–Schulz", "Newton")),
        )
        for r in watched
    ]
    columns = ("matrix", "condition", "‖I − P AᵀA P‖", "‖Q − Q₀‖", "error from A P", "Newton–Schulz", "Newton")
    table(f"From one step to the next, medians of the last {options.watched} of {options.steps:,}", columns, rows)
    found = factors(options)
    rows = []
    for r in found:
        svd, new = (1e3 * r["seconds"][name]["median"] for name in ("SVD", "warm"))
        errors = (f"{max(pair):.0e}" for pair in r["errors"].values())
        rows.append((" × ".join(map(str, r["shape"])), svd, new, svd / new, *errors))
    columns = ("matrices", "SVD", "warm", "times as fast", *(f"error: {name}" for name in found[0]["errors"]))
    table("Polar factor with gradient, cpu, one thread, float32, median milliseconds", columns, rows)
    rows = []
    for r in steps:
        svd, new = (1e3 * r["seconds"][name]["median"] for name in ("SVD", "warm"))
        rows.append((r["case"], svd, new, svd / new, f"{r['solves']} of {r['calls']}"))
    columns = ("step", "SVD", "Φ warm", "times as fast", "SVDs of the warm ones")
    table("Whole steps, cpu, one thread, float32, median milliseconds", columns, rows)
    write("warm", options, {"watched": watched, "factors": found, "steps": steps})


if __name__ == "__main__":
    main(tyro.cli(WarmOptions, description=__doc__))
