"""Photographs for the experiments that need several different crops, and a short training."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from PIL import Image

from niso.config import Hardware
from niso.experiments.experiment import Experiment
from niso.run_folder import RunFolder
from niso.train import make_fabric, train


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Small noisy images: reading the shipped photographs takes a second each time."""
    path = tmp_path_factory.mktemp("images")
    generator = torch.Generator().manual_seed(0)
    for number in range(6):
        pixels = torch.randint(256, (24, 24, 3), generator=generator).byte().numpy()
        Image.fromarray(pixels).save(path / f"{number}.png")
    return path


@pytest.fixture
def figures_of_training(tmp_path: Path) -> Callable[[Experiment], tuple[dict[str, float], dict[str, float]]]:
    """Trains the only phase of an experiment; its figures before and after."""

    def figures(experiment: Experiment) -> tuple[dict[str, float], dict[str, float]]:
        before = experiment.evaluate()
        (phase,) = experiment.phases()
        run, fabric = RunFolder.create(tmp_path / "run", {}), make_fabric(Hardware(accelerator="cpu"))
        train(phase.objective, phase.sampler, phase.optimisation, run, fabric)
        return before, experiment.evaluate()

    return figures
