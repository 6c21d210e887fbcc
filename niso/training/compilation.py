"""Compilation of an objective, or of the networks in it, by torch.compile."""

from __future__ import annotations

import torch
from torch import nn


def compile_networks(objective: nn.Module) -> None:
    """Compile every encoder and decoder of an objective in place; the spectral part stays as it is.

    Whole networks are compiled, so that their norms and activations become one pass over memory each.
    """
    for name, module in objective.named_modules():
        trained = any(parameter.requires_grad for parameter in module.parameters())
        if name.rpartition(".")[2] in ("encoder", "decoder") and trained:
            module.compile()


def compile_objective(objective: nn.Module, device: torch.device) -> None:
    """Compile an objective as a whole, in place: networks, spectrum, maps and losses, and all of their gradients.

    On a GPU they are recorded as CUDA graphs, which replay a step's kernels without the host.
    """
    objective.compile(mode="reduce-overhead" if device.type == "cuda" else None)
