"""Photographs, prepared shapes and frames for the experiments, and a short training."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from niso.config import Hardware
from niso.data.prepared import PARAMETERS, REFUSED, write_json
from niso.data.shapes.prepared import FORMAT, Surface, write_shape
from niso.data.video.preparation import Preparation, prepare
from niso.data.video.sequences import Sequence
from niso.experiments.experiment import Experiment
from niso.geometry import se3
from niso.geometry.mesh.surface import icosphere
from niso.training.loop import train
from niso.training.processes import make_fabric
from niso.training.run import Run


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Small noisy images: reading the shipped photographs takes a second each time."""
    path = tmp_path_factory.mktemp("images")
    generator = torch.Generator().manual_seed(0)
    for number in range(6):
        pixels = torch.randint(256, (24, 24, 3), generator=generator).byte().numpy()
        Image.fromarray(pixels).save(path / f"{number}.png")
    return path


@pytest.fixture(scope="session")
def write_shapes() -> Callable[..., Path]:
    """Writes a prepared folder of noise, of which every map can be told from every other."""

    def write(
        folder: Path,
        classes: int = 3,
        shapes: int = 4,
        variants: int = 5,
        channels: int = 2,
        height: int = 8,
        width: int = 16,
        poison: float | None = None,
    ) -> Path:
        generator = np.random.default_rng(0)
        ball = icosphere(1)
        names = [f"class{label}" for label in range(classes)]
        for name in names:
            (folder / name).mkdir(parents=True)
            for shape in range(shapes):
                maps = generator.standard_normal((variants, channels, height, width)).astype(np.float16)
                maps[..., -1] = maps[..., 0]
                if poison is not None:
                    maps[0, 0, 0, 0] = poison
                mean = maps[0].mean((1, 2), np.float64)
                square = np.square(maps[0], dtype=np.float64).mean((1, 2))
                surface = Surface(ball.vertices, ball.faces, ball.vertices)
                moments = {"mean": mean.tolist(), "square": square.tolist()}
                write_shape(folder, f"{name}/{shape}", maps, moments, surface)
        write_json(folder / PARAMETERS, {"format": FORMAT, "classes": names})
        write_json(folder / REFUSED, {})
        return folder

    return write


@pytest.fixture(scope="session")
def prepared_frames(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Sequences of noise, 8×8 pixels, of cameras that move smoothly; of one, for training, they are not known."""
    raw = tmp_path_factory.mktemp("raw")

    def video(name: str, split: str, frames: int = 24, known: bool = True) -> Sequence:
        generator = np.random.default_rng(list(name.encode()))
        images = [raw / f"{name}{number}.png" for number in range(frames)]
        for image in images:
            Image.fromarray(generator.integers(256, size=(8, 8, 3), dtype=np.uint8)).save(image)
        twists = torch.from_numpy(0.1 * generator.standard_normal((frames, 6))).cumsum(0)
        return Sequence(name, images, list(range(frames)), se3.exp(twists).numpy() if known else None, split=split)

    videos = [video(f"train{number}", "train", 24 - number) for number in range(3)]
    videos += [video("blind", "train", known=False), video("test0", "test"), video("test1", "test")]
    out = tmp_path_factory.mktemp("frames") / "prepared"
    prepare(videos, out, preparation=Preparation(size=8, min_frames=1))
    return out


@pytest.fixture
def figures_of_training(tmp_path: Path) -> Callable[[Experiment], tuple[dict[str, float], dict[str, float]]]:
    """Trains the only phase of an experiment; its figures before and after."""

    def figures(experiment: Experiment) -> tuple[dict[str, float], dict[str, float]]:
        before = experiment.evaluate()
        (phase,) = experiment.phases()
        run, fabric = Run.create(tmp_path / "run", {}), make_fabric(Hardware(accelerator="cpu"))
        train(phase.objective, phase.sampler, phase.optimisation, run, fabric)
        return before, experiment.evaluate()

    return figures
