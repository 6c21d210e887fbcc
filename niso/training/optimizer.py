"""AdamW with separate learning rates for the three parts of a spectrum."""

from __future__ import annotations

import torch
from torch import nn

from niso.config import Optimisation
from niso.spectrum import SpectrumModule


def make_optimizer(objective: nn.Module, optimisation: Optimisation) -> torch.optim.AdamW:
    """An optimizer of all parameters that require gradients, in groups with a "role" for `set_learning_rates`."""
    roles: dict[str, list[nn.Parameter]] = {"network": [], "eigenfunctions": [], "eigenvalues": [], "mass": []}
    special = {
        parameter: role
        for spectrum in spectra(objective)
        for role, parameters in spectrum.roles().items()
        for parameter in parameters
    }
    for parameter in objective.parameters():
        if parameter.requires_grad:
            roles[special.get(parameter, "network")].append(parameter)
    moments = {"betas": (0.9, optimisation.eigenfunction_beta2), "eps": optimisation.eigenfunction_eps}
    settings = {"eigenfunctions": moments}
    return torch.optim.AdamW(
        [{"params": group, "role": role, **settings.get(role, {})} for role, group in roles.items() if group],
        lr=optimisation.learning_rate,
        weight_decay=optimisation.weight_decay,
        fused=True,
    )


def set_learning_rates(optimizer: torch.optim.Optimizer, optimisation: Optimisation, step: int) -> float:
    """Set every group's learning rate for a step, counted from 0, and return the network's."""
    rate = optimisation.rate_at(step)
    peaks = {
        "network": optimisation.learning_rate,
        "eigenfunctions": optimisation.eigenfunction_learning_rate,
        "eigenvalues": optimisation.eigenvalue_learning_rate,
        "mass": optimisation.mass_learning_rate,
    }
    for group in optimizer.param_groups:
        peak = peaks[group["role"]]
        scaled = rate if peak is None else rate * peak / optimisation.learning_rate
        frozen = group["role"] == "eigenvalues" and step < optimisation.eigenvalues_frozen * optimisation.steps
        group["lr"] = 0.0 if frozen else scaled
        for parameter in group["params"] if frozen else ():
            # Zero, not None: Adam then counts these steps. Its second moments are still empty after the thaw but no
            # longer corrected for that, so the first gradients make steps several times larger, which spread the
            # eigenvalues.
            if parameter.grad is not None:
                parameter.grad.zero_()
    return rate


def spectra(objective: nn.Module) -> list[SpectrumModule]:
    """All spectra in a module."""
    return [module for module in objective.modules() if isinstance(module, SpectrumModule)]
