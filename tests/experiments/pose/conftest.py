"""A tiny pose experiment, a trained run to copy, and reports without pictures."""

import shutil
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

import tests.checks  # noqa: F401 (before niso)
from niso.config import Hardware, Optimisation, to_yaml
from niso.experiments import EXPERIMENTS
from niso.experiments.experiment import Experiment
from niso.experiments.pose.experiment import Pose
from niso.experiments.pose.presets import PRESETS, PoseConfig
from niso.experiments.settings import Settings
from niso.geometry import se3
from niso.networks import ConvConfig, MLPConfig
from niso.networks.two_view import TwoViewConfig
from niso.runs import runner
from niso.training.loop import train
from niso.training.processes import make_fabric
from niso.training.run import Run

SIZE = 8  # of the prepared frames
TINY = replace(
    PRESETS["quick"],
    size=SIZE,
    conv=ConvConfig((SIZE, SIZE), 3, (4, 6), blocks=1, latent_channels=6, stem_channels=4),
    transformer=TwoViewConfig(patch=4, channels=8, heads=2, encoder_blocks=1, decoder_blocks=1),
    rank=8,
    nft_epochs=1,
    nft_maps=8,
    training=Optimisation(steps=2, batch_size=4, learning_rate=1e-3),
    head=Optimisation(steps=2, batch_size=32, learning_rate=1e-2),
    mlp=MLPConfig(layers=1, channels=8),
    evaluation_pairs=5,
    head_skip=1,
    clip_frames=8,
    test_clips=2,
    shared_clips=4,
    rooms=2,
    group=2,
    validation=0.0,
    mirrored=False,
)

States = list[tuple[dict[str, torch.Tensor], dict[str, torch.Tensor]]]


@pytest.fixture(scope="session")
def random_poses() -> Callable[..., torch.Tensor]:
    """Draws poses from all directions."""

    def draw(count: int, generator: torch.Generator | None = None, dtype: torch.dtype = torch.float32) -> torch.Tensor:
        return se3.exp(2 * torch.randn(count, 6, generator=generator, dtype=dtype))

    return draw


@pytest.fixture(scope="session")
def tiny_pose() -> PoseConfig:
    return TINY


@pytest.fixture
def make(prepared_frames: Path) -> Callable[..., Pose]:
    """Makes a tiny experiment on prepared frames, with changed settings."""

    def make(
        method: str = "niso",
        precision: Callable[[], Any] = nullcontext,
        folder: Path = prepared_frames,
        **changes: object,
    ) -> Pose:
        torch.manual_seed(0)
        return Pose(replace(TINY, **changes), method, 0, folder, torch.device("cpu"), precision)

    return make


@pytest.fixture
def train_all(tmp_path: Path) -> Callable[[Experiment], States]:
    """Trains all phases of an experiment; the objective's weights before and after each."""

    def train_all(experiment: Experiment) -> States:
        run, fabric = Run.create(tmp_path / "training", {}), make_fabric(Hardware(accelerator="cpu"))
        states = []
        for phase in experiment.phases():
            before = {name: value.clone() for name, value in phase.objective.state_dict().items()}
            train(phase, run, fabric)
            states.append((before, {name: value.clone() for name, value in phase.objective.state_dict().items()}))
        return states

    return train_all


@pytest.fixture(scope="session")
def settings(prepared_frames: Path) -> Callable[..., Settings]:
    """Makes the settings of a tiny run on prepared frames."""

    def settings(method: str = "niso", precision: Any = "32-true", **changes: object) -> Settings:
        hardware = Hardware(accelerator="cpu", precision=precision)
        return Settings("pose", "quick", replace(TINY, **changes), method, 0, prepared_frames, hardware)

    return settings


@pytest.fixture
def command(settings: Callable[..., Settings], tmp_path: Path) -> Callable[..., list[str]]:
    """Words of a tiny `niso run pose`."""

    def command(method: str = "niso", **changes: object) -> list[str]:
        values = settings(method, **changes).dump()
        path = tmp_path / f"{method}.yaml"
        path.write_text(to_yaml(values))
        return ["run", "pose", "--config", str(path)]

    return command


@pytest.fixture(scope="session")
def trained_once(settings: Callable[..., Settings], tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pose") / "run"
    runner.run(settings(validation=0.34), folder)
    return folder


@pytest.fixture
def trained(trained_once: Path, tmp_path: Path) -> Path:
    """A copy of a finished run of niso that kept one of three training sequences for validation."""
    return Path(shutil.copytree(trained_once, tmp_path / "trained"))


@pytest.fixture
def torus_run(tmp_path: Path) -> Path:
    """The folder of a run of another experiment."""
    config = EXPERIMENTS.find("torus").presets["quick"]
    return Run.create(tmp_path / "torus", Settings("torus", "quick", config).dump()).path


@pytest.fixture
def clips() -> dict[str, int]:
    """Sizes of a few rendered clips."""
    return {"clips": 3, "clip_frames": 12, "test_clips": 2, "test_frames": 30}
