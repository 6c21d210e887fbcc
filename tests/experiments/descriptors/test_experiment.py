"""Operators over descriptors: what pairs are, what is measured, surfaces of any kind, and what is refused."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from jaxtyping import TypeCheckError
from scipy.sparse import csr_array, issparse

from niso.errors import InputError
from niso.experiments.descriptors.experiment import Descriptors
from niso.experiments.descriptors.matching import (
    WEIGHTS,
    Classical,
    classical_accuracies,
    classical_maps,
    function_energy,
    measure,
)
from niso.experiments.descriptors.presets import QUICK
from niso.experiments.descriptors.surfaces import Example, Seen, base_meshes, example, with_hole
from niso.geometry.mesh.files import write_off
from niso.geometry.mesh.surface import Mesh, check_surface, icosphere, torus, vertex_areas
from niso.spectrum import Spectrum


@pytest.fixture(scope="module")
def experiment(make_tiny) -> Descriptors:
    return make_tiny("descriptors")


def test_a_surface_is_mapped_to_itself_by_the_identity(experiment):
    surface = experiment.seen(experiment.test[0])[0]
    a = experiment.model.basis(surface)
    gram = a.spectrum.eigenfunctions.mT @ (a.spectrum.mass[:, None] * a.spectrum.eigenfunctions)
    torch.testing.assert_close(gram, torch.eye(6), atol=1e-4, rtol=0)
    tau = experiment.model.solve(a, a)
    torch.testing.assert_close(tau @ a.coefficients, a.coefficients, atol=1e-4, rtol=1e-3)


def test_settings_of_maps_are_taken(make_tiny, experiment):
    special = make_tiny("descriptors", special=True)
    for one, sign in ((special, 1), (experiment, -1)):
        model = one.model
        a = model.basis(one.seen(one.test[0])[0])
        mirrored = a._replace(coefficients=a.coefficients * torch.tensor([-1.0, 1, 1, 1, 1, 1])[:, None])
        assert round(model.solve(a, mirrored).det().item()) == sign


def test_maps_are_applied_in_full_precision_under_autocast(experiment, monkeypatch):
    """As those of a `NeuralIsometry` are: bfloat16 would round what they carry to three digits."""
    surface = experiment.seen(experiment.test[0])[0]
    a, model = experiment.model.basis(surface), experiment.model
    monkeypatch.setattr(model, "basis", lambda surface: a)
    losses = []
    for enabled in (False, True):
        with torch.autocast("cpu", torch.bfloat16, enabled=enabled):
            losses.append(experiment.objective._pair(surface, surface)["equivariance"])
    assert losses[0] == losses[1]


def test_functions_are_in_the_span_of_eigenfunctions_but_for_their_means():
    """Of two functions with as much energy without their means, one is an eigenfunction and one is orthogonal to it."""
    places = torch.arange(8.0) * math.pi / 4
    waves = torch.stack([places.cos(), places.sin()], dim=1) / 2
    spectrum = Spectrum(torch.ones(8), waves[:, :1], torch.zeros(1))
    assert function_energy(spectrum, waves + torch.tensor([3.0, -1.0])) == pytest.approx(0.5)
    assert function_energy(spectrum, waves[:, :1] + 3) == pytest.approx(1)


def test_partners_are_near_isometric_and_remeshed_ones_lie_on_them(experiment):
    pair = experiment.test[0]
    first, partner, other = pair.meshes
    assert np.array_equal(first.faces, partner.faces) and not np.array_equal(partner.faces, other.faces)
    assert [vertex_areas(mesh).sum() for mesh in pair.meshes] == pytest.approx([1, 1, 1])
    assert issparse(pair.carry)  # a dense one of large meshes would fill the memory
    assert np.abs(pair.carry @ partner.vertices - other.vertices).max() < 0.05
    nearest = np.linalg.norm(other.vertices[pair.same_point()] - partner.vertices, axis=1)
    assert nearest.max() < 0.15 and pair.distances().shape == (len(other.vertices),) * 2


def test_metrics_are_those_described_and_chance_is_worse_than_any_match(experiment):
    values = experiment.evaluate().metrics
    assert set(values) == {metric.key for metric in Descriptors.metrics}
    assert all(value >= 0 for value in values.values())
    assert values["match_distance_chance"] > values["match_distance_nearest"]


def test_the_rivals_weight_is_the_best_on_validation_surfaces(experiment, monkeypatch):
    """Test surfaces have no say, nor does the first weight that is tried."""
    asked = []

    def accuracies(pair, surfaces, rank):
        asked.append(pair.name)
        return {0.01: 0.2, 0.1: 0.5, 1.0: 0.7, 10.0: 0.6}

    monkeypatch.setattr("niso.experiments.descriptors.experiment.classical_accuracies", accuracies)
    values = experiment.evaluate().metrics
    assert asked == [pair.name for pair in experiment.validation]
    assert (values["classical_weight"], values["match_accuracy_classical_val"]) == (1.0, 0.7)


@torch.no_grad()
def test_the_rivals_maps_are_orthogonal_and_measured_alike(experiment):
    pair = experiment.validation[0]
    surfaces = experiment.seen(pair)
    maps = classical_maps(pair, surfaces, 6, WEIGHTS)
    for each in maps.values():
        torch.testing.assert_close(each.tau @ each.tau.mT, torch.eye(6, dtype=torch.float64))
    for weight, accuracy in classical_accuracies(pair, surfaces, 6).items():
        assert accuracy == measure(experiment.model, pair, surfaces, weight)[0]["match_accuracy_classical"]


@torch.no_grad()
def test_a_surface_whose_bases_are_turned_is_matched_with_itself(experiment, monkeypatch):
    """The maps between the bases are known: a map that is transposed, or taken of another pair, matches nothing."""
    pair = experiment.test[0]
    mesh, count = pair.meshes[0], len(pair.meshes[0].vertices)
    same = Example("itself", (mesh,) * 3, csr_array(np.eye(count)), (pair.descriptors[0],) * 3)
    here = experiment.seen(pair)[0]
    other = here._replace(points=here.points.flip(0))  # of the partner, which is not the one that is matched
    surfaces = (here, other, Seen(here.points.clone(), here.weights))
    basis = experiment.model.basis(here)
    turns = [torch.linalg.qr(torch.randn(6, 6))[0] for _ in surfaces]
    bases = [
        basis._replace(
            spectrum=basis.spectrum._replace(eigenfunctions=basis.spectrum.eigenfunctions @ turn.mT),
            coefficients=turn @ basis.coefficients,
        )
        for turn in turns
    ]

    def number(things, thing):
        return next(place for place, each in enumerate(things) if each is thing)

    monkeypatch.setattr(experiment.model, "basis", lambda surface: bases[number(surfaces, surface)])
    monkeypatch.setattr(experiment.model, "solve", lambda a, b: turns[number(bases, b)] @ turns[number(bases, a)].mT)
    values, _ = measure(experiment.model, same, surfaces)
    for key in ("match_distance", "match_distance_nearest", "match_distance_classical"):
        assert values[key] == 0, key
    for key in ("equivariance_error", "equivariance_error_remeshed", "function_map_error"):
        assert values[key] < 1e-6, key
    assert experiment.objective._pair(surfaces[0], surfaces[2])["equivariance"] < 1e-6
    moved = (turns[1] - turns[2]) @ basis.coefficients
    expected = (moved.norm() / basis.coefficients.norm()).item()
    assert values["coefficient_error_remeshed"] == pytest.approx(expected, rel=1e-4)
    assert values["relative_map_error_remeshed"] == pytest.approx(expected**2, rel=1e-4)


def test_classical_matches_go_from_the_surface_to_its_partner():
    functions, turn = torch.randn(30, 5).double(), torch.linalg.qr(torch.randn(5, 5).double())[0]
    order = torch.randperm(30)
    spectra = tuple(
        Spectrum(torch.ones(30).double(), part, torch.arange(5).double())
        for part in (functions, (functions @ turn.mT)[order])
    )
    assert np.array_equal(Classical(spectra, turn).matches(), order.argsort().numpy())


def test_losses_of_a_pair_are_those_of_the_reverse(experiment):
    first, second = experiment.objective.pairs[0]
    there, back = experiment.objective._pair(first, second), experiment.objective._pair(second, first)
    for name, value in there.items():
        torch.testing.assert_close(value, back[name], atol=1e-5, rtol=1e-4)


def test_descriptors_are_scaled_by_the_surfaces_that_are_trained_on(experiment):
    values = np.concatenate([part for pair in experiment.train for part in pair.descriptors])
    np.testing.assert_array_equal(experiment.mean, values.mean(0))
    np.testing.assert_array_equal(experiment.deviation, values.std(0))


def test_metrics_are_of_the_surfaces_of_their_part(experiment, monkeypatch):
    names = {"validation": experiment.validation, "test": experiment.test}
    share = {pair.name: float(part == "test") for part, pairs in names.items() for pair in pairs}

    def measured(model, pair, surfaces, weight=WEIGHTS[0]):
        values, matched = measure(model, pair, surfaces, weight)
        return values | {"match_accuracy": share[pair.name]}, matched

    monkeypatch.setattr("niso.experiments.descriptors.experiment.measure", measured)
    values = experiment.evaluate().metrics
    assert (values["match_accuracy"], values["match_accuracy_val"]) == (1.0, 0.0)


@pytest.mark.parametrize("kind", ["family", "open"])
def test_embedded_classes_are_surfaces(kind):
    for name, mesh in base_meshes(kind, 2, 300, None):
        check_surface(mesh, name)
    assert [name for name, _ in base_meshes("tori", 2, 300, None)] == ["torus 0", "torus 1"]


def test_the_users_own_meshes_with_a_boundary(tmp_path, make_tiny):
    for number in range(2):
        write_off(tmp_path / f"{number}.off", with_hole(icosphere(2)))
    (name, mesh), _ = base_meshes("family", 2, 300, tmp_path)
    pair = example(name, mesh, 0, 0.1, True, times=3, energies=3, rank=12)
    assert pair.name == "0.off" and [len(values[0]) for values in pair.descriptors] == [6, 6, 6]
    with pytest.raises(InputError, match=r"^a has 1 face with corners"):
        example("a", Mesh(mesh.vertices, np.array([[0, 1, len(mesh.vertices)]])), 0, 0.1, True)
    with pytest.raises(
        InputError, match=r"has 2 meshes \(.*and 35 are needed: add some, or give smaller --train-shapes"
    ):
        Descriptors(QUICK, "niso", 0, tmp_path, torch.device("cpu"))


def test_meshes_too_small_or_too_large_are_refused_before_the_training(tmp_path, monkeypatch):
    for number, finer in enumerate((2, 2, 0)):
        write_off(tmp_path / f"{number}.off", icosphere(finer))
    parts = {"train_shapes": 1, "validation_shapes": 1, "test_shapes": 1, "times": 3, "energies": 3, "eigenpairs": 8}
    with pytest.raises(InputError, match=r"2\.off has \d+ vertices .*, too few for 20 eigenfunctions: give a smaller"):
        Descriptors(replace(QUICK, **parts), "niso", 0, tmp_path, torch.device("cpu"))
    monkeypatch.setattr("niso.experiments.descriptors.surfaces._MOST", 161)
    with pytest.raises(InputError, match=r"0\.off has 162 vertices, .* decimate it to 161 or fewer"):
        Descriptors(replace(QUICK, **parts), "niso", 0, tmp_path, torch.device("cpu"))
    with pytest.raises(ValueError, match="eigenpairs must be at least 2"):
        replace(QUICK, eigenpairs=1)


def test_surfaces_too_symmetric_for_the_rank_are_refused_before_the_training(tmp_path):
    """All vertices of a ring are alike: eigenfunctions of descriptors differ between seven of 12 columns only."""
    ring = torus(16, 12)
    for number in range(3):
        write_off(tmp_path / f"{number}.off", Mesh(ring.vertices * (1, 1, 1 + number / 8), ring.faces))
    parts = {"train_shapes": 1, "validation_shapes": 1, "test_shapes": 1, "times": 3, "energies": 3, "eigenpairs": 8}
    with pytest.raises(
        InputError, match=r"\.off is so symmetric that its vertices have 7 different .* for 20 eigenfunctions"
    ):
        Descriptors(replace(QUICK, **parts), "niso", 0, tmp_path, torch.device("cpu"))


def test_meshes_of_the_same_names_that_changed_are_other_data(tmp_path):
    parts = {"train_shapes": 2, "validation_shapes": 0, "test_shapes": 1, "times": 3, "energies": 3, "eigenpairs": 12}
    config, base = replace(QUICK, rank=4, **parts), icosphere(2)
    meshes = [Mesh(base.vertices * (1, 1, 1 + number), base.faces) for number in range(3)]
    for number, mesh in enumerate(meshes):
        write_off(tmp_path / f"{number}.off", mesh)
    before = Descriptors(config, "niso", 0, tmp_path, torch.device("cpu"))
    assert not before.announcement
    copy = np.random.default_rng(0).permutation(len(base.vertices))  # of vertices: another order, place and scale
    write_off(tmp_path / "2.off", Mesh(1e3 * meshes[0].vertices[copy] + 5, np.argsort(copy)[base.faces[::-1]]))
    after = Descriptors(config, "niso", 0, tmp_path, torch.device("cpu"))
    assert before.facts()["content"] != after.facts()["content"]
    assert after.announcement.startswith("0.off and 2.off are of the same mesh")
    (tmp_path / "3.glb").touch()
    with pytest.raises(InputError, match=r"3\.glb is of a format that is not read"):
        Descriptors(config, "niso", 0, tmp_path, torch.device("cpu"))


def test_a_table_is_refused():
    with pytest.raises(InputError, match="give --spectrum field"):
        Descriptors(replace(QUICK, spectrum="table"), "niso", 0, None, torch.device("cpu"))
    with pytest.raises((ValueError, TypeCheckError), match="surfaces"):
        replace(QUICK, surfaces="cubes")
