"""A training step of any experiment, to be timed."""

from __future__ import annotations

from collections.abc import Callable

import torch

from niso.experiments import EXPERIMENTS
from niso.random import reseed, step_seed
from niso.training.optimizer import make_optimizer, set_learning_rates, spectra


def step(
    experiment: str, preset: str, method: str = "niso", phase: int = 0, compiled: bool = False
) -> Callable[[], None]:
    """The steps of a phase, one for each call.

    Args:
        phase: its number; the earlier ones are not trained.
        compiled: compile the whole step.
    """
    kind, device = EXPERIMENTS.find(experiment), torch.device("cpu")
    torch.manual_seed(0)
    phases = iter(kind(kind.settings_of(preset, method), method, 0, None, device).phases())
    trained = [next(phases) for _ in range(phase + 1)][-1]
    optimizer = make_optimizer(trained.objective, trained.optimisation)
    learned, number = spectra(trained.objective), iter(range(10**6))
    if compiled:
        trained.objective.compile()

    def call() -> None:
        i = next(number)
        reseed(step_seed(0, i, trained.name), device)
        batch = trained.sampler(i)
        optimizer.zero_grad()
        trained.objective(batch, i / trained.optimisation.steps)["loss"].backward()
        set_learning_rates(optimizer, trained.optimisation, i)
        optimizer.step()
        for spectrum in learned:
            spectrum.retract_()

    return call
