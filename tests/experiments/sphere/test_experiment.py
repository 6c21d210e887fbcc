"""The sphere experiment: its metrics for planted spectra, its pairs, what it refuses, and a short training."""

import json
from dataclasses import replace

import pytest
import torch

from niso.experiments.laplacian.experiment import VALIDATION_SEED
from niso.experiments.sphere.degrees import ByDegree
from niso.experiments.sphere.experiment import SAMPLINGS, Sphere
from niso.experiments.sphere.figures import samplings
from niso.experiments.sphere.presets import QUICK, STANDARD, SphereConfig
from niso.geometry.domains import sphere
from niso.geometry.rotations import Rotations
from niso.random import EVALUATION_SEED
from niso.runs.runner import run
from niso.spectrum import FieldSpectrum, FixedSpectrum, Spectrum

CPU = torch.device("cpu")
SIZE, BAND = 8, 3
TRUTH = sphere.harmonics(SIZE, BAND)


def make(folder, **settings) -> Sphere:
    values = {"size": SIZE, "bandwidth": BAND, "images": 10, "pool": 100, "evaluation_pairs": 8, **settings}
    torch.manual_seed(0)
    return Sphere(replace(QUICK, **values), "niso", 0, folder, CPU)


def planted(experiment: Sphere, functions: torch.Tensor, eigenvalues: torch.Tensor) -> Sphere:
    experiment.model.spectrum = FixedSpectrum(*(part.float() for part in (TRUTH.weights, functions, eigenvalues)))
    return experiment


def turned(truth: sphere.Harmonics) -> torch.Tensor:
    """Any orthonormal basis of every degree, the columns shuffled."""
    generator = torch.Generator().manual_seed(1)
    blocks = [
        torch.linalg.qr(torch.randn(2 * ell + 1, 2 * ell + 1, generator=generator).double()).Q for ell in range(BAND)
    ]
    return truth.functions @ torch.block_diag(*blocks)


def pairs(experiment: Sphere, count: int = 3) -> tuple[torch.Tensor, ...]:
    """Held-out pairs and their rotations."""
    held_out = experiment.held_out(experiment.test_crops, EVALUATION_SEED)
    return tuple(part[:count] for part in (held_out.x, held_out.tx, held_out.motions))


ORDER = torch.randperm(BAND**2, generator=torch.Generator().manual_seed(2))
APART = 20.0 * TRUTH.spaces


def test_the_truth_scores_full_marks_in_any_basis(folder):
    experiment = planted(make(folder), turned(TRUTH)[:, ORDER], APART[ORDER])
    metrics = experiment.evaluate().metrics
    of_fields = {metric.key for metric in Sphere.metrics if metric.key.endswith(tuple(SAMPLINGS))}
    assert metrics.keys() | of_fields == {metric.key for metric in Sphere.metrics}
    for name in ("eigenspace_energy", "eigenspace_energy_worst", "eigenspace_energy_worst_degree", "blocks_found"):
        assert metrics[name] == pytest.approx(1, abs=1e-5), name
    for name in ("map_block_energy", "map_block_energy_val", "wigner_agreement", "mass_cosine"):
        assert metrics[name] == pytest.approx(1, abs=1e-4), name
    for name in ("relative_map_error", "equivariance_error", "equivariance_error_centred", "equivariance_error_val"):
        assert metrics[name] == pytest.approx(0, abs=1e-6), name
    assert metrics["character_error"] < 1e-3
    assert metrics["principal_angle"] <= metrics["principal_angle_worst"] < 0.1
    assert metrics["eigenvalue_order"] == 1
    assert metrics["frequency_rank_correlation"] > 0.8  # not 1: rounding decides within a degree
    assert metrics["map_block_energy_chance"] < 0.7


def test_the_laplacian_itself_correlates_fully(folder):
    metrics = planted(make(folder), TRUTH.functions, TRUTH.eigenvalues).evaluate().metrics
    assert metrics["operator_correlation"] == pytest.approx(1, abs=1e-4)


def test_a_random_spectrum_scores_low(folder):
    root = TRUTH.weights.sqrt()[:, None]
    random = torch.linalg.qr(torch.randn(SIZE**2, BAND**2, dtype=torch.float64)).Q / root
    metrics = planted(make(folder), random, APART).evaluate().metrics
    assert metrics["eigenspace_energy"] < 0.4 and metrics["wigner_agreement"] < 0.6
    assert metrics["equivariance_error"] > 0.05 and metrics["principal_angle"] > 30


def test_merged_eigenvalues_are_no_blocks_though_the_functions_are_pure(folder):
    merged = APART.clamp(max=20.0)  # degrees 1 and 2 share an eigenvalue
    metrics = planted(make(folder), TRUTH.functions, merged).evaluate().metrics
    assert metrics["blocks_found"] == pytest.approx(1 / 3)
    assert metrics["eigenspace_energy"] == pytest.approx(1, abs=1e-5)


@pytest.mark.parametrize("rank", [4, 5, 7])
def test_a_degree_that_the_rank_cuts_is_no_block(folder, rank):
    metrics = planted(make(folder, rank=rank), TRUTH.functions[:, :rank], APART[:rank]).evaluate().metrics
    assert metrics["blocks_found"] == pytest.approx(1 if rank == 4 else 2 / 3)
    assert metrics["character_error"] < 1e-3  # of the whole degrees 0 and 1
    assert metrics["wigner_agreement"] <= 1 + 1e-6


def test_curves_are_by_degree(folder):
    curves = planted(make(folder), turned(TRUTH)[:, ORDER], APART[ORDER]).evaluate().curves
    assert json.loads(json.dumps(curves)) == curves
    assert curves["eigenspace_energy"]["x"] == [0, 1, 2]
    assert curves["eigenspace_energy"]["count"] == [1, 3, 5]
    assert curves["wigner_agreement"]["y"] == pytest.approx([1, 1, 1], abs=1e-3)


def test_the_agreement_of_whole_maps_counts_each_degree_by_its_size():
    """It is ⟨τ, D⟩ / rank."""
    degrees, sizes, blocks = torch.arange(2), torch.tensor([1, 3]), torch.zeros(1, 4, 4)
    agreement = torch.tensor([1.0, 0.2])
    by = ByDegree(
        degrees, sizes, torch.tensor([0, 1, 1, 1]), agreement, agreement, agreement, agreement, blocks, blocks
    )
    assert by.mean_agreement == pytest.approx((1 + 3 * 0.2) / 4)


def test_a_rank_below_the_bandwidth_leaves_degrees_out(folder):
    experiment = make(folder, rank=5)
    assert experiment.model.spectrum.rank == 5
    experiment = planted(experiment, TRUTH.functions[:, :5], APART[:5])
    result = experiment.evaluate()
    assert result.curves["eigenspace_energy"]["count"] == [1, 3, 1]
    assert all(value == value for value in result.metrics.values())
    assert list(Sphere.draw(result))


def test_exact_pairs_are_one_stack_under_one_rotation(folder):
    experiment = make(folder, bandwidth=None, rank=None)
    x, tx, rotations = pairs(experiment)
    assert x.shape == tx.shape == (3, SIZE**2, 30) and rotations.shape == (3, 3, 3)
    torch.testing.assert_close(tx, Rotations(SIZE, 4).act(x, rotations), atol=1e-5, rtol=0)
    torch.testing.assert_close(sphere.band_limited(x, 4), x, atol=1e-5, rtol=0)
    norms = [(sphere.quadrature_weights(SIZE)[:, None] * z.square()).sum(1) for z in (x, tx)]
    torch.testing.assert_close(*norms, atol=1e-4, rtol=1e-4)


def test_resampled_pairs_are_photographs_as_they_are(folder):
    experiment = make(folder, rotations="resampled")
    x, tx, rotations = pairs(experiment)
    torch.testing.assert_close(tx, Rotations(SIZE, 4, exact=False).act(x, rotations))
    assert (sphere.band_limited(x, 4) - x).abs().max() > 0.1
    assert x.min() >= -1 and x.max() <= 1


def test_validation_pairs_are_of_other_crops_and_rotations(folder):
    experiment = make(folder)
    validation = experiment.held_out(experiment.validation_crops, VALIDATION_SEED)
    test = experiment.held_out(experiment.test_crops, EVALUATION_SEED)
    assert not torch.isclose(validation.motions, test.motions).all((-2, -1)).any()
    assert not torch.isclose(validation.x, test.x).all((-2, -1)).any()


def test_degrees_take_no_more_eigenfunctions_than_they_have_dimensions(folder, crowded):
    result = planted(make(folder), crowded(TRUTH.functions, TRUTH.spaces), APART).evaluate()
    assert result.held_out.energy.argmax(-1).bincount().tolist() == [1, 4, 4]
    assert result.by.sizes.tolist() == [1, 3, 5]


class PlantedField(FixedSpectrum):
    """The true spectrum, at any points."""

    def at(self, points, weights=None, orthonormal=True):
        return Spectrum(weights.float(), sphere.spherical_harmonics(points, BAND).float(), self.eigenvalues)


def test_a_field_of_the_truth_scores_full_marks_on_every_sampling(folder):
    experiment = make(folder)
    experiment.model.spectrum = PlantedField(TRUTH.weights.float(), TRUTH.functions.float(), APART.float())
    result = experiment.evaluate()
    metrics = result.metrics
    assert result.readings.keys() == SAMPLINGS.keys()
    assert all(len(read.points) == len(read.functions) for read in result.readings.values())
    assert "samplings" in [picture.name for picture in samplings(result)]
    for name in SAMPLINGS:
        assert metrics[f"eigenspace_energy_{name}"] == pytest.approx(1, abs=1e-5), name
        assert metrics[f"eigenspace_energy_worst_{name}"] == pytest.approx(1, abs=1e-5), name
        assert metrics[f"wigner_agreement_{name}"] == pytest.approx(1, abs=2e-2), name  # the sampling is no quadrature
    assert metrics["wigner_agreement_finer"] == pytest.approx(1, abs=1e-4)


def test_a_field_is_trained_on_quadrature_weights(folder):
    experiment = make(folder, spectrum="field")
    spectrum = experiment.model.spectrum
    assert isinstance(spectrum, FieldSpectrum)
    torch.testing.assert_close(spectrum().mass / spectrum().mass.sum(), (TRUTH.weights / TRUTH.weights.sum()).float())


@pytest.mark.slow
def test_figures_stand_in_reading_order(folder, drawn):
    result = planted(make(folder), turned(TRUTH), APART).evaluate()
    figures = drawn(Sphere, result)
    assert figures == [
        "eigenfunctions",
        "wigner",
        "map",
        "mass",
        "degrees",
        "purity",
        "spectrum",
        "transport",
        "map_errors",
        "operator",
    ]
    assert set(figures) >= Sphere.pictures_of_curves


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"size": 15}, "a 15×15 grid is not Driscoll–Healy"),
        ({"size": 16, "bandwidth": 9}, "bandwidth 9 does not fit the 16×16 grid"),
        ({"size": 16, "bandwidth": 0}, "bandwidth 0 does not fit"),
        (
            {"size": 16, "rank": 65},
            "rank 65 must lie between 1 and the number of spherical harmonics below bandwidth 8, 64",
        ),
        ({"size": 16, "bandwidth": 4, "rank": 17}, "rank 17 must lie between 1 and .* below bandwidth 4, 16"),
        ({"rank": 0}, "rank must be at least 1, got 0"),
        ({"size": 0}, "size must be positive"),
    ],
)
def test_refused_settings(settings, reason):
    with pytest.raises(ValueError, match=reason):
        SphereConfig(**settings)


def test_refusals_reach_the_command_line(refused, tmp_path):
    def words(*options):
        return refused("run", "sphere", *options, "--out", tmp_path / "run")

    assert "15×15 grid is not Driscoll–Healy" in words("--size", 15)
    assert "bandwidth 5 does not fit the 8×8 grid" in words("--size", 8, "--bandwidth", 5)
    assert "rank 17 must lie between 1 and the number of spherical harmonics below bandwidth 4, 16" in words(
        "--size", 8, "--rank", 17
    )


def test_presets_have_the_stated_sizes():
    assert (QUICK.band, QUICK.full_rank) == (4, 16)
    assert {(c.size, c.band, c.full_rank) for c in (STANDARD, Sphere.presets["paper"])} == {(16, 8, 64)}


@pytest.mark.slow
def test_training_finds_eigenspaces_and_mass(folder, metrics_of_training):
    """A few hundred steps at bandwidth 2 on noise."""
    training = replace(QUICK.training, steps=200, warmup_steps=20, eigenvalue_learning_rate=0.3)
    experiment = make(folder, bandwidth=2, size=4, training=training)
    before, after = metrics_of_training(experiment)
    assert after["eigenspace_energy"] > before["eigenspace_energy"] + 0.3
    assert after["wigner_agreement"] > max(0.9, before["wigner_agreement"])
    assert after["mass_cosine"] > before["mass_cosine"]


def test_resampled_rotations_run(tiny_settings, tmp_path):
    metrics = run(tiny_settings("sphere", rotations="resampled"), tmp_path / "run")
    assert metrics["steps"] == 3 and metrics["eigenspace_energy"] > 0
