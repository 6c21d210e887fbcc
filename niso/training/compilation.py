"""Compilation of the networks in an objective by torch.compile."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

WRONG = 0.5
"""Relative error of a parameter's gradient from which compiled code is wrong; that of rounding is below 0.2."""
NEGLIGIBLE = 1e-2
"""Gradients below this share of the largest of their module are not compared: a bias before a norm has none."""


def trained_networks(objective: nn.Module) -> Iterator[nn.Module]:
    """Every encoder and decoder of an objective that is trained."""
    for name, module in objective.named_modules():
        if name.rpartition(".")[2] in ("encoder", "decoder") and any(p.requires_grad for p in module.parameters()):
            yield module


def compile_networks(objective: nn.Module) -> None:
    """Compile the trained networks of an objective in place; the spectral part stays as it is.

    Whole networks are compiled, so that their norms and activations become one pass over memory each. Networks that are
    compiled already stay so.
    """
    for module in trained_networks(objective):
        if module._compiled_call_impl is None:
            draw_as_eager_code()
            module.compile()


def draw_as_eager_code() -> None:
    """Make compiled code draw its random numbers from torch's generators; for all that this process compiles."""
    from torch._inductor import config  # slow to import

    config.fallback_random = True


def keep_graphs_whole() -> None:
    """Compile no graph in pieces where several processes exchange gradients; for all that this process compiles.

    Torch would cut graphs there, to exchange some gradients before others are computed. Its versions differ in what
    they can cut: some refuse an autograd.Function inside ("Found a higher order op in the graph"), as `polar` has.
    """
    torch._dynamo.config.optimize_ddp = False


@contextmanager
def no_trace(objective: nn.Module) -> Iterator[None]:
    """Steps inside change no buffer and leave no gradients."""
    buffers = [(buffer, buffer.clone()) for buffer in objective.buffers()]
    try:
        yield
    finally:
        objective.zero_grad()
        with torch.no_grad():
            for buffer, value in buffers:
                buffer.copy_(value)


def wrong_gradient(objective: nn.Module, step: Callable[[], object]) -> str:
    """What is wrong with the compiled code of an objective; empty where nothing is.

    Gradients of what is compiled are compared with those of eager code: torch's compiler has had bugs that lose parts
    of gradients in half precision and say nothing (pytorch issue 185517, and the one that `Unpool` avoids).

    Args:
        step: computes the gradients, the same each time. It leaves no trace.
    """
    compiled = [m for m in (objective, *trained_networks(objective)) if m._compiled_call_impl is not None]
    if not compiled:
        return ""
    found = []
    for stance in ("force_eager", "default"):
        with no_trace(objective), torch.compiler.set_stance(stance):
            step()
            found.append([_gradients(module) for module in compiled])
    error = float(torch.tensor([0.0, *(_error(*both) for both in zip(*found, strict=True))]).max())
    return "" if error <= WRONG else f"torch {torch.__version__} compiles a gradient that is {error:.0%} off"


def _gradients(module: nn.Module) -> list[Tensor]:
    return [torch.zeros_like(p) if p.grad is None else p.grad for p in module.parameters()]


def _error(true: list[Tensor], compiled: list[Tensor]) -> float:
    """The largest relative error of a parameter's gradient; those that are zero but for rounding do not count."""
    norms = [float(gradient.norm()) for gradient in true]
    pairs = zip(true, compiled, norms, strict=True)
    errors = [float((c - t).norm()) / n for t, c, n in pairs if n > NEGLIGIBLE * max(norms)]
    return float(torch.tensor([0.0, *errors]).max())  # NaN where one is


def undo_compilation(objective: nn.Module) -> None:
    """Undo `compile_networks`, and the compilation of the objective as a whole."""
    for module in (objective, *trained_networks(objective)):
        module._compiled_call_impl = None
