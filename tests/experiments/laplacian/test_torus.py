import json
from dataclasses import replace

import pytest
import torch
from torch import nn

from niso.experiments import EXPERIMENTS
from niso.experiments.laplacian.torus import Torus
from niso.geometry.domains import torus
from niso.geometry.shifts import Shifts
from niso.spectrum import Spectrum
from niso.training import checkpoint

CPU = torch.device("cpu")
SIZE = 4
# Overlays that make any preset small: nested where the configuration is; an experiment to come adds its own line
SMALL = {
    "torus": "--size 4 --images 3 --pool 50 --steps 3 --batch-size 1 --evaluation-pairs 2".split(),
    "sphere": "--size 4 --images 3 --pool 50 --steps 3 --batch-size 1 --evaluation-pairs 2".split(),
    "homnist": (
        "--digits embedded --conv.channels 4 --conv.blocks 1 --rank 8 --steps 3 --batch-size 4 --head.steps 2 "
        "--nft-epochs 1 --nft-maps 8 --test-digits 5 --test-copies 1 --evaluation-pairs 3"
    ).split(),
    "shapes": (
        "--conv.channels 4 6 --conv.patch 1 --conv.blocks 1 --rank 8 --steps 3 --batch-size 4 --head.steps 2 "
        "--head.batch-size 4 --train-shapes 2 --test-shapes 2 --nft-epochs 1 --nft-maps 8 --evaluation-pairs 3"
    ).split(),
    "pose": (
        "--size 8 --conv.channels 4 6 --conv.blocks 1 --conv.patch 1 --rank 8 --steps 3 --batch-size 4 --head.steps 3 "
        "--head.batch-size 8 --transformer.patch 4 --transformer.channels 8 --transformer.heads 2 --nft-epochs 1 "
        "--nft-maps 8 --evaluation-pairs 3 --mlp.layers 1 --mlp.channels 8"
    ).split(),
}
RUNS = [
    (experiment, preset, method)
    for experiment in EXPERIMENTS
    for i, (preset, config) in enumerate(EXPERIMENTS.find(experiment).presets.items())
    for j, method in enumerate(EXPERIMENTS.find(experiment).available(config))
    if not i or not j  # every method of the first preset, the first method of every preset
]


@pytest.mark.parametrize(("experiment", "preset", "method"), RUNS)
def test_every_preset_runs(niso, request, tmp_path, experiment, preset, method):
    run = tmp_path / "run"
    options = [*SMALL[experiment], "--preset", preset, "--method", method, "--out", run]
    if experiment == "shapes":  # making and preparing the embedded ones takes minutes
        options += ["--data-dir", request.getfixturevalue("write_shapes")(tmp_path / "prepared")]
    if experiment == "pose":
        options += ["--data-dir", request.getfixturevalue("prepared_frames")]
    status, out, err = niso("run", experiment, *options)
    assert status == 0, err
    metrics = json.loads((run / "metrics.json").read_text())
    assert metrics.keys() <= EXPERIMENTS.find(experiment).metric_descriptions.keys()
    assert metrics["steps"] >= 3 and metrics["seconds"] > 0
    assert all(isinstance(value, float | int) and value == value for value in metrics.values())
    assert all(name in out for name in metrics) and str(run / "report.html") in out
    for name in ("config.yaml", "run.json", "log.csv", "report.html", "figures/captions.json", "checkpoints"):
        assert (run / name).exists(), name
    assert list((run / "tensorboard").glob("events*")) and list((run / "figures").glob("*.png"))
    assert not list(run.rglob("*.tmp"))
    facts = json.loads((run / "run.json").read_text())
    assert (facts["experiment"], facts["preset"], facts["method"]) == (experiment, preset, method)
    first = max((run / "checkpoints").glob("*.safetensors"), key=lambda path: path.stem)  # pretrain, where there is one
    assert checkpoint.load(first)[1]["step"] == 3


@pytest.fixture
def experiment(folder):
    config = replace(
        EXPERIMENTS.find("torus").presets["quick"],
        size=SIZE, images=10, pool=100, evaluation_pairs=8, rank=None,
    )  # fmt: skip
    torch.manual_seed(0)
    return Torus(config, "niso", 0, folder, CPU)


class Planted(nn.Module):
    """A spectrum that is given, whatever the parametrisation of learned ones."""

    def __init__(self, functions: torch.Tensor, eigenvalues: torch.Tensor) -> None:
        super().__init__()
        mass = torch.ones(len(functions))
        self.planted = Spectrum(mass, functions.float(), eigenvalues.float())

    def forward(self) -> Spectrum:
        return self.planted


TRUTH = torus.harmonics(SIZE)


def apart(spaces: torch.Tensor) -> torch.Tensor:
    """Eigenvalues equal within a plane, and too far apart for the soft mask between planes."""
    return 1 + 20.0 * spaces


def figures_of(experiment: Torus, functions: torch.Tensor, eigenvalues: torch.Tensor) -> dict[str, float]:
    experiment.model.spectrum = Planted(functions, eigenvalues)
    experiment.model.eval()
    return experiment.evaluate()


def test_planted_truth_scores_perfectly(experiment):
    figures = figures_of(experiment, TRUTH.functions, apart(TRUTH.spaces))
    assert figures["eigenspace_energy"] == pytest.approx(1, abs=1e-5)
    assert figures["eigenspace_energy_worst"] == pytest.approx(1, abs=1e-5)
    assert figures["map_block_energy"] == pytest.approx(1, abs=1e-4)
    assert figures["map_block_energy_chance"] < 0.75
    assert figures["equivariance_error"] == pytest.approx(0, abs=1e-6)
    assert figures["equivariance_error_centred"] == pytest.approx(0, abs=1e-5)
    assert figures["frequency_rank_correlation"] > 0.85
    assert 0.8 < figures["operator_correlation"] <= 1


def test_a_turn_within_each_plane_changes_nothing(experiment):
    functions = TRUTH.functions.clone()
    for space in range(int(TRUTH.spaces.max()) + 1):
        columns = TRUTH.spaces == space
        turn = torch.linalg.qr(torch.randn(int(columns.sum()), int(columns.sum()), dtype=torch.float64)).Q
        functions[:, columns] = functions[:, columns] @ turn
    figures = figures_of(experiment, functions, apart(TRUTH.spaces))
    assert figures["eigenspace_energy_worst"] == pytest.approx(1, abs=1e-5)
    assert figures["map_block_energy"] == pytest.approx(1, abs=1e-4)
    assert figures["equivariance_error"] == pytest.approx(0, abs=1e-6)


def test_the_laplacian_itself_correlates_fully(experiment):
    figures = figures_of(experiment, TRUTH.functions, TRUTH.eigenvalues.clamp(min=0))
    assert figures["operator_correlation"] == pytest.approx(1, abs=1e-4)
    assert figures["frequency_rank_correlation"] > 0.9


def test_a_random_spectrum_scores_low(experiment):
    functions = torch.linalg.qr(torch.randn(SIZE**2, SIZE**2, dtype=torch.float64)).Q
    figures = figures_of(experiment, functions, apart(torch.arange(SIZE**2)))
    assert figures["eigenspace_energy"] < 0.6
    assert figures["equivariance_error"] > 0.05
    assert abs(figures["frequency_rank_correlation"]) < 0.7


def test_a_permuted_truth_is_found_but_not_in_order(experiment):
    order = torch.randperm(int(TRUTH.spaces.max()) + 1, generator=torch.Generator().manual_seed(3))
    figures = figures_of(experiment, TRUTH.functions, apart(order[TRUTH.spaces]))
    assert figures["eigenspace_energy"] == pytest.approx(1, abs=1e-5)
    assert figures["equivariance_error"] == pytest.approx(0, abs=1e-6)
    assert abs(figures["frequency_rank_correlation"]) < 0.8


def test_a_pair_is_one_stack_under_one_shift(experiment):
    torch.manual_seed(0)
    x, tx = experiment.sample(0)
    assert x.shape == tx.shape == (experiment.config.training.batch_size, SIZE**2, 30)
    everywhere = torch.cartesian_prod(torch.arange(SIZE), torch.arange(SIZE))
    for one, other in zip(x, tx, strict=True):
        shifted = Shifts(SIZE).act(one.expand(SIZE**2, -1, -1), everywhere)
        assert (shifted == other).all(-1).all(-1).any()


def test_evaluation_does_not_depend_on_the_random_state(experiment):
    figures = []
    for seed in (1, 2):
        torch.manual_seed(seed)
        figures.append(experiment.evaluate())
    assert figures[0] == figures[1]


def test_pictures_have_different_names(experiment):
    experiment.model.spectrum = Planted(TRUTH.functions, apart(TRUTH.spaces))
    pictures = experiment.pictures()
    assert len({picture.name for picture in pictures}) == len(pictures) >= 4


def test_training_finds_eigenspaces(figures_of_training):
    """A few hundred steps on a tiny torus raise the score from that of a random basis."""
    quick = EXPERIMENTS.find("torus").presets["quick"]
    training = replace(quick.training, steps=600, warmup_steps=60)
    config = replace(quick, size=SIZE, images=10, pool=200, evaluation_pairs=8, training=training)
    torch.manual_seed(0)
    experiment = Torus(config, "niso", 0, None, CPU)
    before, after = figures_of_training(experiment)
    assert after["eigenspace_energy"] > before["eigenspace_energy"] + 0.3
    assert after["map_block_energy"] > after["map_block_energy_chance"]
