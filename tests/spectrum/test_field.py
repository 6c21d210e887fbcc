"""Fields are M-orthonormal at any sampling, and the same functions at all of them."""

import pytest
import torch
from jaxtyping import TypeCheckError
from torch import nn

import niso
from niso.config import Optimisation
from niso.geometry.domains import equirectangular, sphere
from niso.geometry.domains.domain import torus
from niso.geometry.domains.torus import harmonics
from niso.spectrum import FieldSpectrum
from niso.spectrum.features import PointFeatures
from niso.training.optimizer import make_optimizer, spectra
from tests.spectrum.test_table import orthonormality_error

KINDS = ["coordinates", "fourier", "periodic"]


def grid(side, dimensions=2):
    axis = torch.linspace(-1, 1, side)
    return torch.cartesian_prod(*[axis] * dimensions)


def places_and_weights(size):
    return equirectangular.directions(size, size, "driscoll-healy").flatten(0, 1), sphere.quadrature_weights(size)


@pytest.fixture
def field():
    return FieldSpectrum(grid(6), 7, width=32, layers=2)


@pytest.mark.parametrize("features", KINDS)
def test_orthonormal_at_any_sampling_after_any_optimiser_step(features, dtype):
    spectrum = FieldSpectrum(grid(6), 7, torch.rand(36) + 0.1, features, frequencies=12, width=32, layers=2).to(dtype)
    optimizer = torch.optim.AdamW(spectrum.parameters(), lr=1e-2)
    model = niso.NeuralIsometry(nn.Identity(), nn.Identity(), spectrum)
    tolerance = 1e-5 if dtype == torch.float32 else 1e-9
    for _ in range(3):
        model(*torch.randn(2, 3, 36, 4, dtype=dtype)).loss().backward()
        assert all(p.grad.isfinite().all() for p in spectrum.parameters())
        optimizer.step()
        optimizer.zero_grad()
        spectrum.retract_()
        assert orthonormality_error(spectrum()) < tolerance
        others = torch.rand(50, 2, dtype=dtype) * 2 - 1
        assert orthonormality_error(spectrum.at(others)) < tolerance
        assert orthonormality_error(spectrum.at(others, torch.rand(50, dtype=dtype) + 0.1)) < tolerance
    s = spectrum()
    assert s.eigenfunctions.dtype == dtype and (s.mass > 0).all()


def test_rotations_are_retracted_into_the_frame(dtype):
    spectrum = FieldSpectrum(grid(6), 7, features="fourier", width=32, eigenfunctions="rotation").to(dtype)
    spectrum.retract_()
    with torch.no_grad():
        spectrum.basis.normal_()
    others = torch.rand(20, 2, dtype=dtype)
    before, elsewhere = spectrum(), spectrum.at(others, orthonormal=False)
    spectrum.retract_()
    assert spectrum.basis.count_nonzero() == 0
    torch.testing.assert_close(spectrum().eigenfunctions, before.eigenfunctions, rtol=1e-4, atol=1e-4)
    read = spectrum.at(others, orthonormal=False).eigenfunctions
    torch.testing.assert_close(read, elsewhere.eigenfunctions, rtol=1e-3, atol=1e-3)
    assert orthonormality_error(spectrum()) < 1e-4 and spectrum.roles()["eigenfunctions"] == [spectrum.basis]


def test_a_larger_gain_keeps_functions_independent():
    places, weights = (part.float() for part in places_and_weights(16))
    with pytest.raises(ValueError, match="64 functions of the field are linearly dependent"):
        FieldSpectrum(places, 64, weights, "coordinates")
    assert orthonormality_error(FieldSpectrum(places, 64, weights, "coordinates", gain=8.0)()) < 1e-3


@pytest.mark.parametrize("dimensions", [2, 3])
def test_the_defaults_suit_usual_ranks(dimensions):
    points = 2 * torch.rand(256, dimensions) - 1
    assert orthonormality_error(FieldSpectrum(points, 32)()) < 1e-3


def test_without_layers_there_is_no_gain():
    places, found = torch.rand(9, 2), []
    for gain in (1.0, 8.0):
        torch.manual_seed(0)
        found.append(FieldSpectrum(places, 3, layers=0, gain=gain).functions.state_dict())
    torch.testing.assert_close(*found)


def test_it_is_the_polar_factor(field):
    field.double()
    mass, functions = field._evaluate(field.places, field.weights)
    root = mass.sqrt()[:, None]
    torch.testing.assert_close(field().eigenfunctions, niso.polar(root * functions) / root, rtol=1e-6, atol=1e-6)


def test_own_points_give_the_same_spectrum(field):
    for orthonormal in (True, False):
        for part, same in zip(field(), field.at(field.places, field.weights, orthonormal), strict=True):
            torch.testing.assert_close(part, same, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(field.at(field.places).mass, field().mass)


def test_a_new_field_has_its_weights_as_mass_and_shares_them_out_elsewhere():
    weights = torch.rand(36) + 0.5
    field = FieldSpectrum(grid(6), 5, weights)
    torch.testing.assert_close(field().mass, weights)
    elsewhere = field.at(grid(3).double())
    torch.testing.assert_close(elsewhere.mass, (weights.sum() / 9).expand(9))
    assert {part.dtype for part in elsewhere} == {torch.float32}


def test_kept_functions_are_the_same_on_subsets_and_in_any_order(field):
    chosen = torch.randperm(36)[:5]  # fewer points than eigenfunctions
    part = field.at(field.places[chosen], orthonormal=False)
    torch.testing.assert_close(part.eigenfunctions, field().eigenfunctions[chosen], rtol=1e-4, atol=1e-5)
    with pytest.raises(ValueError, match="7 functions cannot be orthonormal on 5 points"):
        field.at(field.places[chosen])


def test_the_gram_matrix_converges_with_the_sampling():
    own, weights = places_and_weights(6)
    spectrum = FieldSpectrum(own.float(), 9, weights.float(), "coordinates", width=32, layers=1).double()

    def gram(size):
        kept = spectrum.at(*places_and_weights(size), orthonormal=False)
        return kept.eigenfunctions.mT @ (kept.mass[:, None] * kept.eigenfunctions)

    coarse, middle, fine = ((gram(size) - gram(32)).abs().max().item() for size in (4, 8, 16))
    assert coarse > 30 * middle > 900 * fine


@pytest.mark.parametrize("orthonormal", [True, False])
def test_gradients_reach_points_weights_and_parameters(orthonormal):
    field = FieldSpectrum(grid(6), 7, features="fourier", scale=2.0, width=32, layers=2).double()
    projection = torch.randn(9, 7).double()

    def value(points, weights, last):
        parameters = {"field.functions.layers.2.weight": last}
        s = torch.func.functional_call(_At(field, orthonormal), parameters, (points, weights))
        return (s.eigenfunctions * projection).sum() + s.mass.sum()

    points = (torch.rand(9, 2).double() * 2 - 1).requires_grad_()
    weights = (torch.rand(9).double() + 0.5).requires_grad_()
    last = field.functions.layers[2].weight.detach().clone().requires_grad_()
    with torch.no_grad():
        field.density.layers[-1].weight.normal_()
    assert torch.autograd.gradcheck(value, (points, weights, last), atol=1e-4, rtol=1e-4)


class _At(nn.Module):
    def __init__(self, field, orthonormal):
        super().__init__()
        self.field, self.orthonormal = field, orthonormal

    def forward(self, points, weights):
        return self.field.at(points, weights, self.orthonormal)


def test_periodic_fields_are_periodic():
    spectrum = FieldSpectrum(grid(6), 5, features="periodic", frequencies=8, width=16, layers=1).double()
    places = torch.rand(10, 2).double()
    moved = places + torch.tensor([2.0, -4.0])
    torch.testing.assert_close(spectrum.at(places).eigenfunctions, spectrum.at(moved).eigenfunctions)


def test_whole_frequencies_are_the_lowest_and_differ():
    frequencies = PointFeatures("periodic", 2, 24).frequencies
    assert torch.equal(frequencies, frequencies.round()) and frequencies.any(1).all()
    both = torch.cat([frequencies, -frequencies])
    assert len(both.unique(dim=0)) == 48 and both.abs().max() == 3  # all of a box of 7×7 but 0
    assert PointFeatures("periodic", 2, 25).frequencies.abs().amax(1).tolist() == [1] * 4 + [2] * 8 + [3] * 12 + [4]


def test_random_frequencies_are_as_spread_as_asked():
    frequencies = PointFeatures("fourier", 2, 2000, scale=3.0).frequencies
    torch.testing.assert_close(frequencies.std(), torch.tensor(3.0), rtol=0.1, atol=0)


def test_linear_fields_span_the_waves_that_they_are_given():
    spectrum = FieldSpectrum(torus(6, 6).points, 25, features="periodic", frequencies=12, layers=0).double()
    waves = harmonics(6, 3).functions
    torch.testing.assert_close(waves @ (waves.mT @ spectrum().eigenfunctions), spectrum().eigenfunctions)


@pytest.mark.parametrize("rank, trained", [(25, False), (24, True)])
def test_functions_that_span_all_that_they_can_are_not_trained(rank, trained):
    options = {"features": "periodic", "frequencies": 12, "layers": 0, "eigenfunctions": "rotation"}
    field = FieldSpectrum(torus(6, 6).points, rank, **options)
    assert [parameter.requires_grad for parameter in field.functions.parameters()] == [trained] * 2
    field().eigenfunctions.square().sum().backward()
    assert field.basis.grad is not None and all(p.grad is not None for p in field.density.parameters())


@pytest.mark.parametrize("kind, count", [("coordinates", 2), ("fourier", 26), ("periodic", 24)])
def test_numbers_of_features(kind, count):
    features = PointFeatures(kind, 2, 12, scale=3.0)
    assert features.count == features(grid(3)).shape[1] == count


def test_roles_hold_every_parameter_once(field):
    roles = field.roles()
    assert {id(p) for group in roles.values() for p in group} == {id(p) for p in field.parameters()}
    assert sum(map(len, roles.values())) == len(list(field.parameters()))
    model = niso.NeuralIsometry(nn.Linear(1, 1), nn.Identity(), field)
    assert spectra(model) == [field]
    groups = {group["role"]: group["params"] for group in make_optimizer(model, Optimisation()).param_groups}
    assert {name: len(group) for name, group in groups.items()} == {
        "network": 2,
        "eigenfunctions": 6,
        "eigenvalues": 1,
        "mass": 6,
    }


def test_full_precision_under_autocast_and_in_half_precision_modules(field):
    s, others = field(), torch.rand(20, 2)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        for inside, reference in zip((*field(), *field.at(others)), (*s, *field.at(others)), strict=True):
            assert inside.dtype == torch.float32
            torch.testing.assert_close(inside, reference)
        torch.testing.assert_close(field().eigenfunctions, s.eigenfunctions)
    low = field.bfloat16()()
    assert {part.dtype for part in low} == {torch.float32}
    assert orthonormality_error(low) < 1e-5


def test_state_survives_saving(field):
    other = FieldSpectrum(2 * grid(6), 7, width=32, layers=2)
    other.load_state_dict(field.state_dict())
    assert torch.equal(other().eigenfunctions, field().eigenfunctions)


def test_wrong_arguments(field):
    points = grid(3)
    for arguments, message in [
        ({"rank": 10}, "rank 10 must lie between 1 and the number of points, 9"),
        ({"rank": 6, "width": 4}, "span at most 5 functions, not 6: widen them"),
        ({"rank": 8, "layers": 0, "features": "coordinates"}, "span at most 3 functions, not 8: take more frequencies"),
        ({"layers": -1}, "layers must not be negative"),
        ({"points": points / 1e4, "rank": 9}, "linearly dependent on its 9 points, to rounding: take a larger gain"),
        ({"weights": torch.zeros(9)}, "weights must be positive and finite"),
        ({"weights": torch.ones(8)}, "weights"),
        ({"features": "fourier", "frequencies": 0}, "frequencies must be at least 1"),
        ({"features": "fourier", "scale": 0.0}, "the scale of frequencies must be positive"),
    ]:
        with pytest.raises((ValueError, TypeCheckError), match=message):
            FieldSpectrum(**{"points": points, "rank": 3, **arguments})
    with pytest.raises(ValueError, match="points must be finite"):
        FieldSpectrum(torch.full((4, 2), torch.nan), 2)
    with pytest.raises(ValueError, match="points must have 2 coordinates, not 3"):
        field.at(torch.rand(9, 3))
    with torch.no_grad():
        field.functions.layers[-1].weight.zero_()
        field.functions.layers[-1].bias.zero_()
    with pytest.raises(torch.linalg.LinAlgError, match="not positive definite"):
        field()


def test_points_without_weights_are_refused_for_what_they_are(field):
    for points in (torch.ones(9, 2, dtype=torch.long), torch.ones(9), torch.ones(0, 2)):
        with pytest.raises((ValueError, TypeCheckError), match="points"):
            field.at(points)
    with pytest.raises(ValueError, match="at most 10 coordinates, not 11: take fourier"):
        PointFeatures("periodic", 11)


def test_points_in_half_precision_have_the_weights_of_the_field():
    field = FieldSpectrum(grid(6), 5, weights=torch.full((36,), 1e5), features="fourier")
    points = grid(3).half()
    torch.testing.assert_close(field.at(points).mass, field.at(points.float()).mass)


@pytest.mark.parametrize("eigenfunctions", ["polar", "rotation"])
def test_a_field_is_made_on_the_device_of_its_points(eigenfunctions):
    """On a device whose tensors have no values."""
    points = torch.zeros(30, 3, device="meta")
    field = FieldSpectrum(points, 5, features="fourier", eigenfunctions=eigenfunctions)
    assert {part.device for part in (*field.parameters(), *field.buffers())} == {points.device}


@pytest.mark.parametrize("inside", [False, True])
def test_a_field_made_without_values_takes_those_of_a_state(field, inside):
    points = grid(6)
    with torch.device("meta"):
        empty = FieldSpectrum(torch.zeros(36, 2) if inside else points, 7, width=32)
    assert empty.eigenvalue_root.is_meta
    empty.load_state_dict(field.state_dict(), assign=True)
    torch.testing.assert_close(empty(), field(), rtol=0, atol=0)


def test_points_that_are_checked_already_are_not_looked_at(field, monkeypatch):
    """On a device whose tensors have no values, whatever asks one for its value fails."""
    monkeypatch.setattr("niso.spectrum.field.inverse_root", lambda gram: gram)  # the eigenvalues of G do wait
    points, weights = torch.zeros(9, 2, device="meta"), torch.zeros(9, device="meta")
    field.to("meta")
    assert field.at(points, weights, checked=True).eigenfunctions.shape == (9, 7)
    with pytest.raises(RuntimeError, match="meta"):
        field.at(points, weights)


def test_description(field):
    assert (field.points, field.rank) == (36, 7)
    assert "points=36, rank=7, eigenvalues='shifted'" in repr(field)


@pytest.mark.slow
def test_export_and_compilation(field, tmp_path):
    model = niso.NeuralIsometry(nn.Identity(), nn.Identity(), field).eval()

    class Maps(nn.Module):
        def __init__(self):
            super().__init__()
            self.model = model

        def forward(self, x, tx):
            return self.model.map_between(x, tx)

    x, tx = torch.randn(2, 3, 36, 4)
    exported = torch.export.export(Maps(), (x, tx))
    torch.export.save(exported, tmp_path / "maps.pt2")
    read = torch.export.load(tmp_path / "maps.pt2").module()
    torch.testing.assert_close(read(x, tx), model.map_between(x, tx))


def test_the_points_of_the_caller_are_copied():
    places, weights = torch.rand(12, 2), torch.ones(12)
    one, other = (FieldSpectrum(places, 4, weights) for _ in range(2))
    before = other().eigenfunctions
    one.load_state_dict(FieldSpectrum(torch.rand(12, 2), 4, 2 * weights).state_dict())
    places.zero_()
    weights.zero_()
    torch.testing.assert_close(other().eigenfunctions, before)


@pytest.mark.parametrize("eigenfunctions", ["polar", "rotation"])
def test_points_in_double_precision_have_eigenfunctions_orthonormal_in_it(eigenfunctions):
    field = FieldSpectrum(torch.rand(40, 2).double(), 8, eigenfunctions=eigenfunctions)
    assert field().eigenfunctions.dtype == torch.float64 and orthonormality_error(field()) < 1e-12
