"""Compilation of an objective, or of the networks in it, by torch.compile; on a GPU to CUDA graphs."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from niso.errors import first_line
from niso.messages import say
from niso.training.mode import buffers_kept

WRONG = 0.5
"""Relative error of a parameter's gradient from which compiled code may be wrong; that of bfloat16 reaches 0.5."""
ROUNDINGS = 2.0
"""Times that error of eager code from which compiled code is."""
NEGLIGIBLE = 1e-2
"""Gradients below this share of the largest of their module are not compared: a bias before a norm has none."""
REPLAYED = 3
"""The first step in which a CUDA graph is replayed: in the one before torch records it, after one to warm up."""
WAITING = (
    *("aten::_linalg_eigh", "aten::_linalg_svd", "aten::linalg_eig", "aten::linalg_matrix_exp"),
    "aten::_linalg_check_errors",  # by which solve, inv and cholesky end
)
"""Operations that make the host wait for a GPU, which nothing in a CUDA graph may do."""
CONFIG = "torch._inductor.config"
"""Torch's settings of its compiler, slow to import."""


def trained_networks(objective: nn.Module) -> Iterator[nn.Module]:
    """Every encoder and decoder of an objective that is trained."""
    for name, module in objective.named_modules():
        if name.rpartition(".")[2] in ("encoder", "decoder") and any(p.requires_grad for p in module.parameters()):
            yield module


def compile_networks(objective: nn.Module, graphs: bool = False) -> None:
    """Compile the trained networks of an objective in place; the spectral part stays as it is.

    Whole networks are compiled, so that their norms and activations become one pass over memory each. Networks that are
    compiled already stay so.

    Args:
        graphs: to CUDA graphs: a GPU then runs what it is told once, and waits for no launches. `begin_step` has to be
            called before each step, and gradients may not add up over several.
    """
    for module in trained_networks(objective):
        _compile(module, graphs)


def compile_step(objective: nn.Module, graphs: bool) -> None:
    """Compile everything from a batch to its loss terms as one, and its backward pass; `graphs` as above. What is
    compiled already stays so.

    Decompositions, for which the host waits, stay outside of graphs.
    """
    graphs = graphs and steps_become_graphs()
    if graphs:
        from torch._inductor import config

        # in one order: torch's cache of compiled code depends on it
        config.custom_should_partition_ops = list(dict.fromkeys([*config.custom_should_partition_ops, *WAITING]))
    _compile(objective, graphs)


def steps_become_graphs() -> bool:
    """Whether this torch can leave outside of CUDA graphs what the host waits for: from 2.9 on, but for a part of
    2.9.0."""
    from torch._inductor import config

    return hasattr(torch.Tag, "cudagraph_unsafe") and hasattr(config, "custom_should_partition_ops")


def _compile(module: nn.Module, graphs: bool) -> None:
    if module._compiled_call_impl is not None:
        return
    draw_as_eager_code()
    if graphs:
        module.compile(mode="reduce-overhead")
    else:
        module.compile()


def begin_step() -> None:
    """Say that a step begins: what CUDA graphs of earlier ones computed may be overwritten."""
    torch.compiler.cudagraph_mark_step_begin()


def draw_as_eager_code() -> None:
    """Make compiled code draw its random numbers from torch's generators; for all that this process compiles."""
    from torch._inductor import config  # slow to import

    config.fallback_random = True


@contextmanager
def compiler_left_alone() -> Iterator[None]:
    """What compiling inside sets for the whole process is afterwards as it was, or as in a new process."""

    def settings() -> dict[str, Any]:
        config = sys.modules.get(CONFIG)
        return {name: getattr(config, name) for name in new if hasattr(config, name)}

    new: dict[str, Any] = {"fallback_random": False, "custom_should_partition_ops": []}
    before = new | settings()
    try:
        yield
    finally:
        for name in settings():
            setattr(sys.modules[CONFIG], name, before[name])


def keep_graphs_whole() -> None:
    """Compile no graph in pieces where several processes exchange gradients; for all that this process compiles.

    Torch would cut graphs there, to exchange some gradients before others are computed. Its versions differ in what
    they can cut: some refuse an autograd.Function inside ("Found a higher order op in the graph"), as `polar` has.
    """
    torch._dynamo.config.optimize_ddp = False


@contextmanager
def no_trace(objective: nn.Module) -> Iterator[None]:
    """Steps inside change no buffer and leave no gradients."""
    with buffers_kept(objective):
        try:
            yield
        finally:
            objective.zero_grad()


def wrong_gradient(objective: nn.Module, step: Callable[[bool], object], graphs: bool = False) -> str:
    """What is wrong with the compiled code of an objective, or that it cannot be compiled; empty where all is well.

    Gradients of what is compiled are compared with those of eager code: torch's compiler has had bugs that lose parts
    of gradients in half precision and say nothing (pytorch issue 185517, and those that `Unpool` and `InstanceNormSiLU`
    avoid).

    Args:
        step: computes the gradients, the same each time; exactly where it is told so, otherwise in the precision of
            training. It leaves no trace.
        graphs: compiled to CUDA graphs: the gradients are those of replayed ones.
    """
    compiled = _compiled(objective)
    if not compiled:
        return ""

    def gradients(stance: str, exact: bool) -> list[dict[str, Tensor]]:
        with no_trace(objective), torch.compiler.set_stance(stance):
            step(exact)
            return [_gradients(module) for module in compiled]

    true = None
    with suppress(torch.OutOfMemoryError):  # it can take more than a step in half precision does
        true = gradients("force_eager", True)
    eager = gradients("force_eager", False)
    try:
        for _ in range(REPLAYED - 1 if graphs else 0):
            gradients("default", False)
        fast = gradients("default", False)
    except torch.OutOfMemoryError:
        raise
    except Exception as failure:  # of many kinds, e.g. where there is no C++ compiler: eager code had none
        return f"torch {torch.__version__} cannot compile it here ({first_line(failure)})"
    wrong = dict[str, float]()
    for exact, slow, quick in zip(true or eager, eager, fast, strict=True):
        rounding, errors = _errors(exact, slow), _errors(exact, quick)
        wrong |= {name: e for name, e in errors.items() if not e <= max(WRONG, ROUNDINGS * rounding[name])}  # or NaN
    if not wrong:
        return ""
    name, error = max(wrong.items(), key=lambda item: math.inf if math.isnan(item[1]) else item[1])
    return f"torch {torch.__version__} compiles a gradient, of {name}, that is {error:.0%} off"


def _compiled(objective: nn.Module) -> list[nn.Module]:
    """What is compiled of an objective and its trained networks."""
    return [m for m in (objective, *trained_networks(objective)) if m._compiled_call_impl is not None]


def _gradients(module: nn.Module) -> dict[str, Tensor]:
    return {n: torch.zeros_like(p) if p.grad is None else p.grad for n, p in module.named_parameters()}


def _errors(true: dict[str, Tensor], other: dict[str, Tensor]) -> dict[str, float]:
    """Relative errors of parameters' gradients; those that are zero but for rounding do not count."""
    norms = {name: float(gradient.norm()) for name, gradient in true.items()}
    least = NEGLIGIBLE * max(norms.values(), default=0.0)
    return {n: float((other[n] - true[n]).norm()) / norm for n, norm in norms.items() if norm > least}


def undo_compilation(objective: nn.Module, graphs: bool = False) -> None:
    """Undo `compile_networks`, and the compilation of the objective as a whole.

    Args:
        graphs: to CUDA graphs: their memory, which nothing else can use, is given back, and gradients, which lie in it,
            are removed. All that this process has compiled is compiled again where it is called again.
    """
    compiled = _compiled(objective)
    for module in compiled:
        module._compiled_call_impl = None
    if graphs and compiled:
        objective.zero_grad()
        torch.compiler.reset()


def undo_decoders(objective: nn.Module) -> None:
    """Undo the compilation of decoders: once trained they are called a few times, and code for another size of batch
    takes longer to compile."""
    for name, module in objective.named_modules():
        if name.rpartition(".")[2] == "decoder":
            module._compiled_call_impl = None


def allow_uncompiled(objective: nn.Module) -> None:
    """Let what is compiled run uncompiled in evaluation from where it cannot be compiled on, and say so: batches of
    another size are compiled anew, perhaps on a machine without a compiler. In training, that stays an error."""
    for module in _compiled(objective):
        if (compiled := module._compiled_call_impl) is not None:  # as `_compiled` says
            module._compiled_call_impl = partial(_call, module, compiled)


def _call(module: nn.Module, compiled: Callable[..., Any], *args: Any, **options: Any) -> Any:
    from torch._dynamo.exc import BackendCompilerFailed  # slow to import

    try:
        return compiled(*args, **options)
    except BackendCompilerFailed as failure:
        if module.training:
            raise
        say(f"torch {torch.__version__} cannot compile the networks here ({first_line(failure)}): they run uncompiled")
    module._compiled_call_impl = None
    return module(*args, **options)
