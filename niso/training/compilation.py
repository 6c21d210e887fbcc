"""Compilation of the networks in an objective by torch.compile."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import nn


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
            module.compile()


def keep_graphs_whole() -> None:
    """Compile no graph in pieces where several processes exchange gradients; for all that this process compiles.

    Torch would cut graphs there, to exchange some gradients before others are computed. Its versions differ in what
    they can cut: some refuse an autograd.Function inside ("Found a higher order op in the graph"), as `polar` has.
    """
    torch._dynamo.config.optimize_ddp = False


def undo_compilation(objective: nn.Module) -> None:
    """Undo `compile_networks`."""
    for module in trained_networks(objective):
        module._compiled_call_impl = None
