"""The torus experiment: its metrics for planted spectra, its pairs, its splits, and a short training."""

import shutil
from dataclasses import replace

import numpy as np
import pytest
import torch
from PIL import Image

from niso.errors import InputError
from niso.experiments import EXPERIMENTS
from niso.experiments.laplacian.experiment import MASKS, VALIDATION_SEED
from niso.experiments.torus.experiment import Torus
from niso.experiments.torus.presets import PAPER, RELEASED
from niso.geometry.domains import torus
from niso.geometry.shifts import Shifts
from niso.random import EVALUATION_SEED
from niso.spectrum import FixedSpectrum, Spectrum

CPU = torch.device("cpu")
SIZE = 4


@pytest.fixture
def experiment(folder):
    config = replace(
        EXPERIMENTS.find("torus").presets["quick"],
        size=SIZE, images=10, pool=100, evaluation_pairs=8, rank=None,
    )  # fmt: skip
    torch.manual_seed(0)
    return Torus(config, "niso", 0, folder, CPU)


@pytest.mark.parametrize(("blank", "words"), [((4,), "held out"), ((0, 1, 2, 3, 5), "to train on")])
def test_images_of_a_single_colour_are_refused(experiment, folder, tmp_path, blank, words):
    shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
    for number in blank:
        Image.new("RGB", (24, 24), (number, 0, 9)).save(tmp_path / f"{number}.png")
    with pytest.raises(InputError, match=f"each of the images {words} is of a single colour"):
        Torus(experiment.config, "niso", 0, tmp_path, CPU)
    shutil.copy(folder / f"{blank[0]}.png", tmp_path)  # one of several will do
    Torus(experiment.config, "niso", 0, tmp_path, CPU)


def planted(functions: torch.Tensor, eigenvalues: torch.Tensor) -> FixedSpectrum:
    """A spectrum that is given, whatever the parametrisation of learned ones."""
    return FixedSpectrum(torch.ones(len(functions)), functions.float(), eigenvalues.float())


TRUTH = torus.harmonics(SIZE)


def apart(spaces: torch.Tensor) -> torch.Tensor:
    """Eigenvalues equal within a plane, and too far apart for the soft mask between planes."""
    return 1 + 20.0 * spaces


def metrics_of(experiment: Torus, functions: torch.Tensor, eigenvalues: torch.Tensor) -> dict[str, float]:
    experiment.model.spectrum = planted(functions, eigenvalues)
    experiment.model.eval()
    return experiment.evaluate().metrics


def test_planted_truth_scores_perfectly(experiment):
    metrics = metrics_of(experiment, TRUTH.functions, apart(TRUTH.spaces))
    assert metrics["eigenspace_energy"] == pytest.approx(1, abs=1e-5)
    assert metrics["eigenspace_energy_worst"] == pytest.approx(1, abs=1e-5)
    assert metrics["map_block_energy"] == pytest.approx(1, abs=1e-4)
    assert metrics["map_block_energy_chance"] < 0.75
    assert metrics["equivariance_error"] == pytest.approx(0, abs=1e-6)
    assert metrics["equivariance_error_centred"] == pytest.approx(0, abs=1e-5)
    assert metrics["relative_map_error"] == pytest.approx(0, abs=1e-5)
    assert metrics["map_block_energy_val"] == pytest.approx(1, abs=1e-4)
    assert metrics["equivariance_error_val"] == pytest.approx(0, abs=1e-6)
    of_fields = {metric.key for metric in Torus.metrics if metric.key.endswith("_finer")}
    assert metrics.keys() | of_fields == {metric.key for metric in Torus.metrics}
    assert metrics["frequency_rank_correlation"] > 0.85
    assert 0.8 < metrics["operator_correlation"] <= 1


class PlantedField(FixedSpectrum):
    """The true spectrum below the bandwidth, at any points."""

    def at(self, points, weights=None, orthonormal=True):
        waves = torus.waves(points, SIZE, SIZE // 2).float()
        return Spectrum(weights.float(), waves / waves.norm(dim=0), self.eigenvalues)


def test_a_field_of_the_truth_scores_full_marks_on_a_finer_grid(folder):
    config = EXPERIMENTS.find("torus").presets["quick"]
    config = replace(config, size=SIZE, images=10, pool=100, evaluation_pairs=8, rank=None, bandwidth=SIZE // 2)
    experiment = Torus(config, "niso", 0, folder, CPU)
    truth = experiment.truth()
    assert config.full_rank == truth.functions.shape[1] == (SIZE - 1) ** 2
    torch.testing.assert_close(torus.band_limited(experiment.train_crops, SIZE // 2), experiment.train_crops)
    mass, values = torch.ones(SIZE**2), apart(truth.spaces).float()
    experiment.model.spectrum = PlantedField(mass, truth.functions.float(), values)
    metrics = experiment.evaluate().metrics
    for key in ("eigenspace_energy", "eigenspace_energy_finer", "eigenspace_energy_worst_finer"):
        assert metrics[key] == pytest.approx(1, abs=1e-5), key
    assert metrics["operator_correlation"] > 0.8


def test_a_turn_within_each_plane_changes_nothing(experiment):
    functions = TRUTH.functions.clone()
    for space in range(int(TRUTH.spaces.max()) + 1):
        columns = TRUTH.spaces == space
        turn = torch.linalg.qr(torch.randn(int(columns.sum()), int(columns.sum()), dtype=torch.float64)).Q
        functions[:, columns] = functions[:, columns] @ turn
    metrics = metrics_of(experiment, functions, apart(TRUTH.spaces))
    assert metrics["eigenspace_energy_worst"] == pytest.approx(1, abs=1e-5)
    assert metrics["map_block_energy"] == pytest.approx(1, abs=1e-4)
    assert metrics["equivariance_error"] == pytest.approx(0, abs=1e-6)


def test_the_laplacian_itself_correlates_fully(experiment):
    metrics = metrics_of(experiment, TRUTH.functions, TRUTH.eigenvalues.clamp(min=0))
    assert metrics["operator_correlation"] == pytest.approx(1, abs=1e-4)
    assert metrics["frequency_rank_correlation"] > 0.9


def test_a_random_spectrum_scores_low(experiment):
    functions = torch.linalg.qr(torch.randn(SIZE**2, SIZE**2, dtype=torch.float64)).Q
    metrics = metrics_of(experiment, functions, apart(torch.arange(SIZE**2)))
    assert metrics["eigenspace_energy"] < 0.6
    assert metrics["equivariance_error"] > 0.05
    assert metrics["relative_map_error"] > metrics["equivariance_error"]
    assert abs(metrics["frequency_rank_correlation"]) < 0.7


def test_a_permuted_truth_is_found_but_not_in_order(experiment):
    order = torch.randperm(int(TRUTH.spaces.max()) + 1, generator=torch.Generator().manual_seed(3))
    metrics = metrics_of(experiment, TRUTH.functions, apart(order[TRUTH.spaces]))
    assert metrics["eigenspace_energy"] == pytest.approx(1, abs=1e-5)
    assert metrics["equivariance_error"] == pytest.approx(0, abs=1e-6)
    assert abs(metrics["frequency_rank_correlation"]) < 0.8


def test_a_pair_is_one_stack_under_one_shift(experiment):
    torch.manual_seed(0)
    x, tx = experiment.sample(0)
    assert x.shape == tx.shape == (experiment.config.training.batch_size, SIZE**2, 30)
    everywhere = torch.cartesian_prod(torch.arange(SIZE), torch.arange(SIZE))
    for one, other in zip(x, tx, strict=True):
        shifted = Shifts(SIZE).act(one.expand(SIZE**2, -1, -1), everywhere)
        assert (shifted == other).all(-1).all(-1).any()


def test_validation_crops_are_of_the_training_photographs_and_never_trained_on(experiment):
    """Other crops of the same photographs; the crops of the test are of other photographs."""
    pools = [experiment.train_crops, experiment.validation_crops, experiment.test_crops]
    crops = [{crop.numpy().tobytes() for crop in pool} for pool in pools]
    assert not (crops[0] & crops[2] or crops[1] & crops[2])
    assert len(crops[0] & crops[1]) < 0.2 * len(crops[0])  # of 24 pixels: those of nearly all of a picture are alike
    seen = set()
    for step in range(3):
        torch.manual_seed(step)
        x, _ = experiment.sample(step)
        seen |= {crop.contiguous().numpy().tobytes() for crop in x[0].unflatten(1, (-1, 3)).transpose(0, 1)}
    assert seen <= crops[0]
    validation, test = (
        experiment.held_out(pool, seed)
        for pool, seed in ((experiment.validation_crops, VALIDATION_SEED), (experiment.test_crops, EVALUATION_SEED))
    )
    assert not torch.equal(validation.motions, test.motions)


def test_maps_of_another_observation_are_under_the_same_motion(experiment):
    experiment.model.spectrum = planted(TRUTH.functions, apart(TRUTH.spaces))
    held_out = experiment.held_out(experiment.test_crops, EVALUATION_SEED)
    astray = held_out._replace(motions=(held_out.motions + 1) % SIZE)
    right, wrong = (experiment.map_errors_by_crops(maps) for maps in (held_out, astray))
    assert right.keys() == wrong.keys() == MASKS.keys()
    for key in MASKS:
        assert right[key]["y"][-1] == pytest.approx(0, abs=1e-5)
        assert wrong[key]["y"][-1] > 0.01


def test_few_crops_suffice_for_maps_that_commute_with_the_operator(experiment):
    experiment.model.spectrum = planted(TRUTH.functions, apart(TRUTH.spaces))
    held_out = experiment.held_out(experiment.test_crops, EVALUATION_SEED)
    masked, unmasked = experiment.map_errors_by_crops(held_out).values()
    assert masked["x"] == unmasked["x"] and masked["x"][-1] == experiment.config.images
    enough = -(-int(TRUTH.spaces.bincount().max()) // 3)  # as many channels as the largest space has dimensions
    for count, few, any_map in zip(masked["x"], masked["y"], unmasked["y"], strict=True):
        assert few == pytest.approx(0, abs=1e-4) if count >= enough else few < any_map
        assert any_map > 0.01 or 3 * count >= len(TRUTH.spaces)


def test_a_map_without_the_operator_is_0_on_what_its_crops_do_not_show(experiment):
    """Its error is that of the part that they show, and of leaving the rest out."""
    experiment.model.spectrum = planted(TRUTH.functions, apart(TRUTH.spaces))
    held_out = experiment.held_out(experiment.test_crops, EVALUATION_SEED)
    other = held_out.x.roll(1, 0)
    moved = experiment.action.act(other, held_out.motions)
    a, b, c, d = (
        held_out.spectrum.project(x).numpy() for x in (held_out.x, held_out.tx, other[..., :3], moved[..., :3])
    )
    errors = []
    for x, y, shown, carried in zip(a, b, c, d, strict=True):
        u, _, vh = np.linalg.svd(carried @ shown.T)
        tau = u[:, :3] @ vh[:3]
        errors.append(np.square(tau @ x - y).sum() / np.square(y).sum())
    assert experiment.map_errors_by_crops(held_out)["map_error_by_crops_unmasked"]["y"][0] == pytest.approx(
        np.mean(errors), rel=1e-3
    )
    assert 0 < np.mean(errors) < 1


def test_one_eigenfunction_has_no_order_and_all_metrics_are_numbers(experiment):
    experiment.model.spectrum = planted(TRUTH.functions[:, 1:2], torch.zeros(1))
    metrics = experiment.measure(experiment.held_out(experiment.test_crops, EVALUATION_SEED))
    assert "frequency_rank_correlation" not in metrics
    assert all(np.isfinite(value) for value in metrics.values()), metrics


def test_planes_take_no_more_eigenfunctions_than_they_have_dimensions(experiment, crowded):
    experiment.model.spectrum = planted(crowded(TRUTH.functions, TRUTH.spaces), apart(TRUTH.spaces))
    held_out = experiment.held_out(experiment.test_crops, EVALUATION_SEED)
    assert held_out.energy.argmax(-1).bincount()[1] == (TRUTH.spaces == 1).sum() + 1
    assert torch.equal(held_out.spaces.bincount(), TRUTH.spaces.bincount())


@pytest.mark.slow
def test_figures_stand_in_reading_order(experiment, drawn):
    experiment.model.spectrum = planted(TRUTH.functions, apart(TRUTH.spaces))
    figures = drawn(Torus, experiment.evaluate())
    assert figures == [
        "eigenfunctions",
        "purity",
        "map",
        "transport",
        "map_errors",
        "operator",
        "spectrum",
        "stencil",
        "mass",
    ]
    assert set(figures) >= Torus.pictures_of_curves


def test_the_published_presets_are_as_published():
    for preset, images, multiplicity, dropout, batch, steps in (
        (PAPER, 86, 0.1, 0.5, 1, 100_000),
        (RELEASED, 89, 0.5, 0.0, 16, 1_000_000),
    ):
        assert (preset.size, preset.full_rank, preset.images, preset.equivariance) == (16, 256, images, 0)
        assert (preset.multiplicity, preset.spectral_dropout) == (multiplicity, dropout)
        assert (preset.training.batch_size, preset.training.steps) == (batch, steps)
        assert preset.special == bool(preset.damping) == (preset is RELEASED)


@pytest.mark.slow
def test_training_finds_eigenspaces(folder, metrics_of_training):
    """A few hundred steps on a tiny torus raise the score from that of a random basis."""
    quick = EXPERIMENTS.find("torus").presets["quick"]
    training = replace(quick.training, steps=200, warmup_steps=20)
    config = replace(quick, size=SIZE, images=10, pool=200, evaluation_pairs=8, training=training)
    torch.manual_seed(0)
    experiment = Torus(config, "niso", 0, folder, CPU)
    before, after = metrics_of_training(experiment)
    assert after["eigenspace_energy"] > before["eigenspace_energy"] + 0.3
    assert after["map_block_energy"] > after["map_block_energy_chance"]
