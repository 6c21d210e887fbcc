import math
from contextlib import suppress

import numpy as np
import pytest
import torch

from niso.errors import InputError
from niso.geometry import mobius
from niso.geometry.mesh import space_mobius, spherical_map
from niso.geometry.mesh.surface import Mesh, icosphere, vertex_areas
from niso.geometry.mobius import MobiusTransformations


def bumpy(subdivisions: int = 3) -> Mesh:
    """A shape without symmetries."""
    sphere = icosphere(subdivisions)
    x, y, z = sphere.vertices.T
    radius = 1 + 0.2 * np.sin(3 * x + y) + 0.15 * np.cos(2 * z - 4 * y) + 0.1 * x * z
    return Mesh(sphere.vertices * radius[:, None] * [1.0, 1.3, 0.8], sphere.faces)


def conformal_latitudes(mesh: Mesh, axis: float) -> np.ndarray:
    """The conformal map to the sphere of an ellipsoid of semi-axes 1, 1, `axis`: Snyder, "Map projections", 1987, §3.

    Longitude stays, and the isometric latitude of the ellipsoid, asinh(tan φ) − e artanh(e sin φ), is the sphere's.
    """
    x, y, z = mesh.vertices.T
    around = np.hypot(x, y)
    latitude = np.arctan2(z, axis**2 * around)
    square = 1 - axis**2
    e = math.sqrt(abs(square))
    inner = np.arctanh(e * np.sin(latitude)) if square > 0 else -np.arctan(e * np.sin(latitude))
    isometric = np.arcsinh(np.tan(latitude)) - e * inner
    ring = 1 / np.cosh(isometric)
    scale = ring / np.maximum(around, 1e-300)
    return np.stack((x * scale, y * scale, np.tanh(isometric)), axis=1)


def angles(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    return 2 * np.arcsin(np.clip(np.linalg.norm(one - other, axis=1) / 2, 0, 1))


def aligned(moving: np.ndarray, fixed: np.ndarray) -> np.ndarray:
    u, _, vh = np.linalg.svd(fixed.T @ moving)
    return moving @ (u @ np.diag([1, 1, np.linalg.det(u @ vh)]) @ vh).T


# The flow


@pytest.mark.parametrize("axis", [0.5, 1.5], ids=["oblate", "prolate"])
def test_flow_of_an_ellipsoid_is_the_analytic_map(axis):
    errors = []
    for subdivisions in (2, 3):
        sphere = icosphere(subdivisions)
        ellipsoid = Mesh(sphere.vertices * [1, 1, axis], sphere.faces)
        flow = spherical_map.conformal_flow(ellipsoid)
        centred = spherical_map.centre(flow.directions, vertex_areas(ellipsoid))[0]
        errors.append(angles(centred, conformal_latitudes(ellipsoid, axis)).max())
    assert flow.radius_error < 0.01
    assert errors[1] < 0.02
    assert errors[1] < errors[0] / 3  # of second order in the edges' length


def test_flow_of_a_bumpy_shape():
    shape = bumpy()
    flow = spherical_map.conformal_flow(shape)
    assert flow.radius_error < 0.01
    np.testing.assert_allclose(np.linalg.norm(flow.directions, axis=1), 1)
    before, after = spherical_map.quality(shape, icosphere(3).vertices), spherical_map.quality(shape, flow.directions)
    assert after.flipped == 0
    assert before.distortion > 1.3 and after.distortion < 1.1
    assert 1 <= after.distortion < after.distortion_99 <= after.distortion_max < 1.6


def test_flow_does_not_depend_on_place_and_size():
    shape = bumpy(2)
    moved = Mesh(50 * shape.vertices + [1.0, 2.0, 3.0], shape.faces)
    one, other = spherical_map.conformal_flow(shape), spherical_map.conformal_flow(moved)
    np.testing.assert_allclose(other.directions, one.directions, atol=1e-6)


def test_flow_of_a_sphere_stays_where_it_is():
    sphere = icosphere(3)
    flow = spherical_map.conformal_flow(sphere)
    assert angles(flow.directions, sphere.vertices).max() < 0.01
    assert flow.radius_error < 1e-3 and flow.steps == 24


def test_variants_under_space_mobius_differ_by_mobius():
    """Centred with the same weights, the maps of all conformal variants are the same but for a rotation."""
    shape = bumpy()
    weights = vertex_areas(shape)
    base = spherical_map.centre(spherical_map.conformal_flow(shape).directions, weights)[0]
    for transformation in space_mobius.sample(2, np.random.default_rng(0)):
        flow = spherical_map.conformal_flow(space_mobius.transform(shape, transformation))
        centred = spherical_map.centre(flow.directions, weights)[0]
        assert angles(aligned(centred, base), base).mean() < 0.02


def test_flow_ends_where_it_does_not_reach_its_tolerance(monkeypatch):
    monkeypatch.setattr(spherical_map, "_TOLERANCE", 1e-9)
    flow = spherical_map.conformal_flow(bumpy(2))
    assert flow.radius_error > 1e-9 and flow.steps == 48


# Quality


def test_quality_of_the_identity_and_of_mirror_images():
    sphere = icosphere(2)
    identity = spherical_map.quality(sphere, sphere.vertices)
    np.testing.assert_allclose(identity, (0, 1, 1, 1, 0, 0), atol=1e-6)
    assert spherical_map.quality(sphere, sphere.vertices * [1, 1, -1]).flipped == len(sphere.faces)
    inside_out = Mesh(sphere.vertices, sphere.faces[:, ::-1])
    assert spherical_map.quality(inside_out, sphere.vertices).flipped == 0


def test_quality_is_the_ratio_of_singular_values():
    rng = np.random.default_rng(0)
    square = np.array([[0.0, 0, 1], [1, 0, 1], [0, 1, 1]])
    matrix = rng.standard_normal((3, 3))
    triangle = Mesh(square, np.array([[0, 1, 2]]))
    image = (square - square[0]) @ matrix.T + 1
    expected = np.linalg.svd(matrix[:, :2], compute_uv=False)
    assert spherical_map.quality(triangle, image).distortion == pytest.approx(expected[0] / expected[1])


def test_quality_counts_what_has_collapsed():
    sphere = icosphere(1)
    collapsed = sphere.vertices.copy()
    collapsed[sphere.faces[0]] = collapsed[sphere.faces[0, 0]]
    found = spherical_map.quality(sphere, collapsed)
    assert found.flipped >= 1 and found.distortion_max == math.inf
    assert found.coincident == 2 and 0 < found.flipped_area < 0.2


# Centring


@pytest.mark.parametrize("strength", [0.5, 3.0])
def test_centre_undoes_a_mobius_transformation(strength):
    directions, weights = icosphere(2).vertices, np.random.default_rng(1).uniform(0.5, 1.5, 162)
    moves = MobiusTransformations(strength).sample(4, torch.Generator().manual_seed(0)).to(torch.complex128)
    centred, _ = spherical_map.centre(directions, weights)
    for moved in mobius.act(moves, torch.from_numpy(directions)).numpy():
        again, transformation = spherical_map.centre(moved, weights)
        np.testing.assert_allclose(weights @ again / weights.sum(), 0, atol=1e-9)
        assert angles(aligned(again, centred), centred).max() < 1e-7
        acted = mobius.act(transformation, torch.from_numpy(moved)).numpy()
        np.testing.assert_allclose(acted, again, atol=1e-9)


def test_centre_of_what_has_no_centre_is_refused():
    directions = icosphere(1).vertices
    weights = np.ones(len(directions))
    weights[0] = 1e3
    with pytest.raises(InputError, match="cannot be centred"):
        spherical_map.centre(directions, weights)


@pytest.mark.parametrize("seed", [38, 49, 58])
def test_points_near_each_other_are_centred_or_refused_without_a_warning(seed):
    """Half of all weight or more is within 1e-11: the transformation is far beyond single steps."""
    generator = np.random.default_rng(seed)
    directions, near = icosphere(2).vertices.copy(), 81
    directions[:near] = directions[0] + 10.0 ** generator.uniform(-16, -4) * (directions[:near] - directions[0])
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    weights = np.ones(len(directions))
    weights[:near] *= generator.uniform(1, 3)
    with suppress(InputError):
        centred = spherical_map.centre(directions, weights)[0]
        assert np.linalg.norm(weights @ centred) < 1e-6 * weights.sum()
