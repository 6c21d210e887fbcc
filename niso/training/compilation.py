"""Compilation of the networks in an objective by torch.compile."""

from __future__ import annotations

from torch import nn


def compile_networks(objective: nn.Module) -> None:
    """Compile every encoder and decoder of an objective in place; the spectral part stays as it is.

    Whole networks are compiled, so that their norms and activations become one pass over memory each.
    """
    for name, module in objective.named_modules():
        trained = any(parameter.requires_grad for parameter in module.parameters())
        if name.rpartition(".")[2] in ("encoder", "decoder") and trained:
            module.compile()
