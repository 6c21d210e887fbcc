"""Data and tiny settings of the experiments, finished runs, a short training, and figures that are drawn."""

import json
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from matplotlib.figure import Figure
from PIL import Image

import tests.checks  # noqa: F401 (before niso)
from niso.config import Hardware, overlaid
from niso.data.digits import homnist
from niso.data.prepared import PARAMETERS, REFUSED
from niso.data.shapes.prepared import FORMAT, Surface, write_shape
from niso.data.video import clips
from niso.data.video.preparation import Preparation, prepare
from niso.data.video.sequences import Sequence
from niso.experiments import EXPERIMENTS
from niso.experiments.experiment import Experiment
from niso.experiments.pairs.recipes import RECIPES
from niso.experiments.settings import Settings
from niso.files.json import write_json
from niso.geometry import se3
from niso.geometry.mesh.surface import icosphere
from niso.report import pictures
from niso.report.pictures import save_pictures
from niso.results import Result
from niso.runs import runner
from niso.training.loop import train
from niso.training.processes import make_fabric
from niso.training.run import Run


@pytest.fixture(scope="session")
def folder(photographs_folder: Path) -> Path:
    """What an experiment's tests read; files of tests may put theirs in its place."""
    return photographs_folder


@pytest.fixture(scope="session")
def photographs_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
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
                facts = {"mean": mean.tolist(), "square": square.tolist(), "grid_r2": [0.5] * variants}
                write_shape(folder, f"{name}/{shape}", maps, facts, surface)
        signatures = {"eigenpairs": 9, "first_time": 0.01, "last_time": 0.1, "times": channels}
        write_json(folder / PARAMETERS, {"format": FORMAT, "classes": names, "layout": "poles", **signatures})
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


@pytest.fixture(scope="session")
def labelled_pairs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Noisy images of two classes, and the same mirrored."""
    generator, label = np.random.default_rng(0), np.arange(40) % 2
    x = generator.integers(128, size=(40, 8, 8)).astype(np.uint8)
    x[label == 1, :4] += 127
    path = tmp_path_factory.mktemp("pairs") / "pairs.npz"
    np.savez(path, x=x, tx=x[:, :, ::-1], ttx=x, label=label, group=np.arange(40) // 4)
    return path


_DRAWN: dict[tuple[object, ...], np.ndarray] = {}


@pytest.fixture(autouse=True, scope="module")
def transformations_once():
    """Transformations of test digits are drawn once: each run of homNIST tests on the same, a thousand at least."""
    draw = homnist.GeneratedTestSet.transformations

    def once(self: homnist.GeneratedTestSet, block: int) -> torch.Tensor:
        which = (self.action, self.seed, self.copies, len(self.images), homnist._BLOCK, block)
        if which not in _DRAWN:
            _DRAWN[which] = draw(self, block).numpy()
        return torch.tensor(_DRAWN[which])  # on the CPU, also for a pretended GPU

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(homnist.GeneratedTestSet, "transformations", once)
        yield


@pytest.fixture(scope="module")
def two_skips():
    """Poses are evaluated at two frame skips, and not at six: all are computed alike."""
    with pytest.MonkeyPatch.context() as patch:
        for module in ("evaluation", "baselines"):
            patch.setattr(f"niso.experiments.pose.{module}.SKIPS", (0, 1))
        yield


@pytest.fixture(autouse=True, scope="session")
def textures_once():
    """Photographs on the walls of rendered rooms are read once: each few clips would read them for half a second."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(clips, "photograph_textures", cache(clips.photograph_textures))
        yield


@pytest.fixture(autouse=True, scope="session")  # before the runs that files share are trained
def few_examples():
    """Heads of poses are oriented by few pairs: as many as in earnest take longer than a tiny training."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("niso.experiments.pose.experiment.EXAMPLES", 16)
        yield


@pytest.fixture(autouse=True, scope="module")
def narrow_networks():
    """Networks of the user's pairs have as many levels as ever, and few channels: most of a tiny run's time else."""
    with pytest.MonkeyPatch.context() as patch:
        for effort, chosen in RECIPES.items():
            narrow = replace(chosen["latent"], channels=(16,) * len(chosen["latent"].channels), blocks=1)
            patch.setitem(RECIPES, effort, {**chosen, "latent": narrow})
        yield


# Tiny runs

CPU = torch.device("cpu")
_CONV = {"channels": (4,), "blocks": 1, "latent_channels": 6, "stem_channels": 4}
_TWO_LEVELS = {**_CONV, "channels": (4, 6), "patch": 1}
_HEAD = {"vector_neurons": {"channels": 8, "invariant_channels": 8}}
_LAPLACIAN = {"size": 4, "images": 3, "pool": 50, "evaluation_pairs": 4, "training": {"steps": 3, "batch_size": 1}}
_METHOD = {
    "rank": 8,
    "nft_epochs": 1,
    "nft_maps": 8,
    "evaluation_pairs": 4,
    "training": {"steps": 3, "batch_size": 4, "warmup_steps": 1},
    "head": {"steps": 3, "batch_size": 4, "warmup_steps": 1},
}
_COMPLETION = {"steps": 3, "batch_size": 4, "warmup_steps": 1}
TINY: dict[str, dict[str, Any]] = {
    "torus": {**_LAPLACIAN, "bandwidth": None, "rank": None},
    "sphere": _LAPLACIAN,
    "homnist": {
        **_METHOD,
        **_HEAD,
        "digits": "embedded",
        "conv": _CONV,
        "validation": 0.01,
        "test_digits": 5,
        "test_copies": 2,
        "completion": _COMPLETION,
    },
    "shapes": {**_METHOD, **_HEAD, "conv": _TWO_LEVELS, "train_shapes": 3, "test_shapes": 1, "validation_shapes": 1},
    "pose": {
        **_METHOD,
        "completion": _COMPLETION,
        "size": 8,
        "clips": 8,
        "clip_frames": 8,
        "test_clips": 2,
        "test_frames": 12,
        "shared_clips": 4,
        "head_skip": 1,
        "conv": _TWO_LEVELS,
        "transformer": {"patch": 4, "channels": 8, "heads": 2},
        "mlp": {"layers": 1, "channels": 8},
    },
    "descriptors": {
        "surfaces": "tori",
        "vertices": 150,
        "eigenpairs": 20,
        "rank": 6,
        "train_shapes": 2,
        "validation_shapes": 1,
        "test_shapes": 1,
        "training": {"steps": 3, "batch_size": 2, "warmup_steps": 1},
    },
    "pairs": {**_METHOD, "latent_channels": 4, "training": {"steps": 3, "batch_size": 4}},
}
"""What makes any preset of an experiment a matter of a second; an experiment to come adds its own line."""


@pytest.fixture(scope="session")
def data_of(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path | None]:
    """A small --data-dir of an experiment; None where what is embedded is small, or nothing is read."""
    fixtures = {"pairs": "labelled_pairs", "pose": "prepared_frames"}
    fixtures |= dict.fromkeys(("torus", "sphere"), "photographs_folder")
    shapes: list[Path] = []

    def find(experiment: str) -> Path | None:
        if experiment == "shapes":
            if not shapes:
                write = request.getfixturevalue("write_shapes")
                shapes.append(write(tmp_path_factory.mktemp("shapes") / "prepared"))
            return shapes[0]
        return request.getfixturevalue(fixtures[experiment]) if experiment in fixtures else None

    return find


@pytest.fixture(scope="session")
def tiny_settings(data_of: Callable[[str], Path | None]) -> Callable[..., Settings]:
    """Settings of a run of three steps a phase, by default of an experiment's first preset and method."""

    def make(
        experiment: str,
        preset: str | None = None,
        method: str | None = None,
        precision: Any = "32-true",
        **changes: Any,
    ) -> Settings:
        kind = EXPERIMENTS.find(experiment)
        preset = preset or next(iter(kind.presets))
        method = method or kind.methods()[0]
        if experiment not in TINY:
            pytest.fail(
                f"add to TINY in tests/experiments/conftest.py what makes presets of {experiment} take a second"
            )
        config = overlaid(overlaid(kind.settings_of(preset, method), TINY[experiment]), changes)
        hardware = Hardware(accelerator="cpu", precision=precision)
        return Settings(experiment, preset, config, method, data_dir=data_of(experiment), hardware=hardware)

    return make


@pytest.fixture(scope="session")
def make_tiny(tiny_settings: Callable[..., Settings]) -> Callable[..., Experiment]:
    """Builds an untrained experiment from the arguments of `tiny_settings`."""

    def make(*words: Any, device: torch.device = CPU, **changes: Any) -> Experiment:
        settings = tiny_settings(*words, **changes)
        torch.manual_seed(0)
        kind = EXPERIMENTS.find(settings.experiment)
        return kind(settings.config, settings.method, settings.seed, settings.data_dir, device)

    return make


@pytest.fixture(scope="session")
def finished_once(
    tiny_settings: Callable[..., Settings], tmp_path_factory: pytest.TempPathFactory
) -> Callable[..., Path]:
    """Folders of finished tiny runs without figures, each trained once a session: not to be changed."""
    folders: dict[str, Path] = {}

    def run(experiment: str, method: str = "niso", precision: str = "32-true") -> Path:
        name = f"{experiment}-{method}-{precision}"
        if name not in folders:
            out = tmp_path_factory.mktemp("finished") / name
            runner.run(tiny_settings(experiment, method=method, precision=precision), out)
            folders[name] = out
        return folders[name]

    return run


@pytest.fixture(scope="session")
def crowded() -> Callable[[torch.Tensor, torch.Tensor], torch.Tensor]:
    """Turns true functions so that more of them lie mostly in one space than it has dimensions, orthonormal as before.

    Three have two thirds of their energy in a plane of that space, and one third in a function of another.
    """

    def turn(functions: torch.Tensor, spaces: torch.Tensor) -> torch.Tensor:
        first, second = (spaces == 1).nonzero().flatten()[:2].tolist()
        other = (spaces == 2).nonzero().flatten()[0].item()
        angles = torch.arange(3, dtype=torch.float64) * 2 * torch.pi / 3
        rows = torch.stack([(2 / 3) ** 0.5 * angles.cos(), (2 / 3) ** 0.5 * angles.sin(), torch.full((3,), 3**-0.5)])
        turned = functions.clone()
        turned[:, [first, second, other]] = functions[:, [first, second, other]] @ rows.to(functions)
        return turned

    return turn


@pytest.fixture
def train_phases(tmp_path: Path) -> Callable[..., list[dict[str, torch.Tensor]]]:
    """Trains all phases of an experiment; the weights of its model after each."""

    def trained(experiment: Any, precision: Any = "32-true") -> list[dict[str, torch.Tensor]]:
        fabric = make_fabric(Hardware(accelerator="cpu", precision=precision))
        run, states = Run.create(tmp_path / "trained", {}), []
        for phase in experiment.phases():
            train(phase, run, fabric)
            states.append({name: value.clone() for name, value in experiment.method.model.state_dict().items()})
        return states

    return trained


@pytest.fixture
def metrics_of_training(tmp_path: Path) -> Callable[[Experiment], tuple[dict[str, float], dict[str, float]]]:
    """Trains the only phase of an experiment; its metrics before and after."""

    def metrics(experiment: Experiment) -> tuple[dict[str, float], dict[str, float]]:
        before = experiment.evaluate()
        (phase,) = experiment.phases()
        run, fabric = Run.create(tmp_path / "run", {}), make_fabric(Hardware(accelerator="cpu"))
        train(phase, run, fabric)
        return before.metrics, experiment.evaluate().metrics

    return metrics


@pytest.fixture
def drawn(drawn: None, tmp_path: Path, blank_png: bytes, monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[str]]:
    """Draws a result in earnest, coarsely, and checks files and captions; the figures' names in reading order.

    Given names, only these are drawn. Figures are darkened, and then not drawn again: that takes as long. So does to
    lay them out, which is tested for each function of `niso.figures`.
    """

    def drawn_once(figure: Figure) -> tuple[bytes, bytes]:
        figure.set_layout_engine("none")
        light = pictures.as_png(figure)
        pictures.darken(figure)
        return light, blank_png

    monkeypatch.setattr(pictures, "as_pngs", drawn_once)

    def draw(kind: type[Experiment], result: Result, *names: str) -> list[str]:
        chosen = [picture for picture in kind.draw(result) if not names or picture.name in names]
        save_pictures(chosen, tmp_path / "figures")
        captions = json.loads((tmp_path / "figures" / "captions.json").read_text())
        assert list(captions) == [picture.name for picture in chosen]
        for name, caption in captions.items():
            assert len(caption.split()) >= 8 and caption.endswith("."), name
            with Image.open(tmp_path / "figures" / f"{name}.png") as image:
                assert min(image.size) > 20 and image.convert("RGB").getcolors(5) is None, name  # more than five
        return list(captions)

    return draw
