"""Compilation of an objective, or of the networks in it, by torch.compile."""

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


def compile_objective(objective: nn.Module) -> None:
    """Compile an objective as a whole, in place: networks, spectrum, maps and losses, and all of their gradients.

    Not as CUDA graphs: the SVD of the polar factor waits for the host and cannot be recorded.
    """
    objective.compile()
