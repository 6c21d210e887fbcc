"""AdamW with separate learning rates for the three parts of a spectrum."""

from __future__ import annotations

from typing import get_args

import torch
from torch import nn

from niso.checks import check_instance
from niso.config import Optimisation
from niso.spectrum import SpectrumModule
from niso.spectrum.module import Role

ROLES = ("network", *get_args(Role))
"""Roles of an optimizer's groups: networks, and the parts of a spectrum."""


def make_optimizer(objective: nn.Module, optimisation: Optimisation) -> torch.optim.AdamW:
    """An optimizer of all parameters that require gradients, in groups with a "role" for `set_learning_rates`.

    Args:
        objective: any module, such as a `niso.IsometryObjective`; of the spectra in it, the parameters in
            `SpectrumModule.roles` get groups of their own, and the others are trained as the networks are.
        optimisation: the settings.

    Returns:
        AdamW, with the peak learning rate everywhere until `set_learning_rates` is called.

    Raises:
        TypeError: an objective that is not a module, or settings that are not a `niso.Optimisation`.
        ValueError: a spectrum of your own has a role that is none of these.
    """
    check_instance("objective", objective, nn.Module, "torch.nn.Module")
    check_instance("optimisation", optimisation, Optimisation, "niso.Optimisation")
    roles: dict[str, list[nn.Parameter]] = {role: [] for role in ROLES}
    special = {
        parameter: role
        for spectrum in spectra(objective)
        for role, parameters in spectrum.roles().items()
        for parameter in parameters
    }
    if unknown := {*special.values()} - {*ROLES}:
        raise ValueError(f"a spectrum's `roles` are some of {', '.join(ROLES[1:])}, not {', '.join(map(str, unknown))}")
    for parameter in objective.parameters():
        if parameter.requires_grad:
            roles[special.get(parameter, "network")].append(parameter)
    moments = {"betas": (0.9, optimisation.eigenfunction_beta2), "eps": optimisation.eigenfunction_eps}
    settings = {"eigenfunctions": moments}
    return torch.optim.AdamW(
        [{"params": group, "role": role, **settings.get(role, {})} for role, group in roles.items() if group],
        lr=optimisation.learning_rate,
        weight_decay=optimisation.weight_decay,
        fused=not any(parameter.is_complex() for parameter in objective.parameters()),
    )


def set_learning_rates(optimizer: torch.optim.Optimizer, optimisation: Optimisation, step: int) -> float:
    """Set every group's learning rate for a step, and hold the eigenvalues while they are frozen.

    Call it between the backward pass and the optimizer's step.

    Args:
        optimizer: from `make_optimizer`.
        optimisation: the settings that it was made with.
        step: the step, counted from 0.

    Returns:
        The learning rate of the networks.

    Raises:
        ValueError: an optimizer with groups that `make_optimizer` did not make.
    """
    for group in optimizer.param_groups:
        if group.get("role") not in ROLES:
            raise ValueError(
                f"a group of the optimizer has the role {group.get('role')!r}, which is none of {', '.join(ROLES)}: "
                "make it by niso.make_optimizer, and an optimizer of its own for parameters with another learning rate"
            )
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
