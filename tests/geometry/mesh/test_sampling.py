"""Functions on meshes of a sphere have coefficients that depend on the function, not on the mesh."""

import numpy as np
import pytest
import torch

from niso.errors import InputError
from niso.geometry import mobius
from niso.geometry.domains.domain import quadrature_sphere
from niso.geometry.mesh import remeshing
from niso.geometry.mesh.sampling import at_vertices, carried, project, spherical_areas, within_faces
from niso.geometry.mesh.surface import Mesh, check, face_areas, icosphere, volume
from niso.spectrum import FieldSpectrum

BALL = icosphere(3)
UPPER = BALL.faces[BALL.vertices[BALL.faces].mean(1)[:, 2] > 0]


@pytest.fixture(scope="module")
def field() -> FieldSpectrum:
    torch.manual_seed(0)
    points, weights = quadrature_sphere(12, 12)
    return FieldSpectrum(points.float(), 12, weights.float(), features="fourier", scale=0.3, width=32, layers=1)


def functions(x: np.ndarray) -> np.ndarray:
    return np.stack([x[:, 0] * x[:, 1], np.exp(x[:, 2]), np.cos(3 * x[:, 0])], axis=1)


def moved(mesh: Mesh) -> np.ndarray:
    """Places after a boost that makes some faces large and others small."""
    g = mobius.boost(torch.tensor([0.5, 0.2, -0.1], dtype=torch.float64))
    return mobius.act(g, torch.from_numpy(mesh.vertices)).numpy()


def difference(a: torch.Tensor, b: torch.Tensor) -> float:
    return ((a - b).norm() / b.norm()).item()


def test_areas_add_up_to_the_sphere():
    for mesh in (icosphere(0), BALL, Mesh(moved(icosphere(1)), icosphere(1).faces)):
        assert spherical_areas(mesh.vertices[mesh.faces]).sum() == pytest.approx(4 * np.pi)
    octant = np.eye(3)[None]
    assert spherical_areas(octant) == pytest.approx(np.pi / 2) and spherical_areas(octant[:, ::-1]) == pytest.approx(
        np.pi / 2
    )


@pytest.mark.parametrize("make", [at_vertices, within_faces])
def test_points_are_unit_vectors_with_positive_weights_of_mean_1(make):
    (points, weights), interpolation = make(moved(BALL), BALL.faces)
    torch.testing.assert_close(points.norm(dim=1), torch.ones(len(points)).double())
    assert (weights > 0).all() and weights.mean().item() == pytest.approx(1)
    np.testing.assert_allclose(interpolation @ np.ones(len(BALL.vertices)), 1)
    np.testing.assert_allclose(interpolation @ moved(BALL), points.numpy(), atol=0.05)


def test_a_field_is_orthonormal_on_every_mesh_in_its_own_unit(field):
    for largest in (None, 0.1):
        spectrum = project(field, moved(BALL), BALL.faces, functions(BALL.vertices), largest).spectrum
        gram = spectrum.eigenfunctions.mT @ (spectrum.mass[:, None] * spectrum.eigenfunctions)
        torch.testing.assert_close(gram, torch.eye(12), atol=1e-4, rtol=0)
        torch.testing.assert_close(spectrum.mass.sum(), field().mass.sum(), rtol=0.02, atol=0)


def test_coefficients_of_a_function_agree_on_meshes_and_on_the_grid(field):
    points, weights = quadrature_sphere(48, 48)
    unit = field.weights.double().sum() / weights.sum()
    grid = field.at(points, weights * unit).project(torch.from_numpy(functions(points.numpy())).float())
    boosted = moved(BALL)
    for places, tolerance in ((BALL.vertices, 0.01), (boosted, 0.03)):  # there faces are larger
        read = project(field, places, BALL.faces, functions(places)).coefficients
        assert difference(read, grid) < tolerance
        same = project(field, places, BALL.faces, functions(places), orthonormal=False).coefficients
        assert difference(same, grid) < 0.05  # the field's own grid is coarse


@pytest.mark.parametrize(
    "remesh",
    [
        lambda: remeshing.decimated(BALL),
        lambda: remeshing.subdivided(BALL),
        lambda: remeshing.simplified(remeshing.subdivided(BALL), len(BALL.faces)),
        lambda: remeshing.resampled(BALL, BALL.vertices, np.random.default_rng(0)),
    ],
)
def test_remeshed_surfaces_are_closed_and_keep_coefficients(field, remesh):
    mesh, carry = remesh()
    check(mesh)
    assert len(mesh.faces) != len(BALL.faces) or not np.array_equal(mesh.faces, BALL.faces)
    assert face_areas(mesh).sum() == pytest.approx(4 * np.pi, rel=0.02) and volume(mesh) > 0
    np.testing.assert_allclose(carry.sum(1), 1)
    places = carry @ BALL.vertices
    places /= np.linalg.norm(places, axis=1, keepdims=True)
    values = functions(BALL.vertices)
    whole = project(field, BALL.vertices, BALL.faces, values).coefficients
    there = carried(BALL.vertices, BALL.faces, values, places, mesh.faces)
    assert difference(project(field, places, mesh.faces, there).coefficients, whole) < 0.003
    assert difference(project(field, places, mesh.faces, carry @ values).coefficients, whole) < 0.03


@pytest.mark.parametrize(
    ("places", "faces", "values", "largest", "message"),
    [
        (BALL.vertices * [1, 1, 2], BALL.faces, BALL.vertices, None, "directions must be of length 1: map the mesh"),
        (BALL.vertices, UPPER, BALL.vertices, 0.1, "faces must cover the sphere once"),
        (BALL.vertices, np.concatenate([BALL.faces] * 2), BALL.vertices, 0.1, "faces must cover the sphere once"),
        (BALL.vertices, BALL.faces, BALL.vertices, 0.0, "largest must be positive, got 0.0"),
    ],
)
def test_what_is_not_a_function_on_the_sphere_is_refused(field, places, faces, values, largest, message):
    with pytest.raises(ValueError, match=message):
        project(field, places, faces, values, largest)


def test_constants_are_carried_as_they_are():
    other = icosphere(2)
    ones = np.ones((len(BALL.vertices), 1))
    np.testing.assert_allclose(carried(BALL.vertices, BALL.faces, ones, other.vertices, other.faces), 1)


def test_what_cannot_be_remeshed_is_refused():
    with pytest.raises(ValueError, match="between 0 and 1, got 2"):
        remeshing.decimated(BALL, 2.0)
    with pytest.raises(InputError, match="cannot be triangulated"):
        remeshing.resampled(BALL, np.ones_like(BALL.vertices), np.random.default_rng(0))
