"""Maps of shapes that a conformal flow folds: repaired, or refused with the reason."""

import pickle

import numpy as np
import pytest

from niso.errors import InputError
from niso.geometry.mesh import good_map, spherical_map
from niso.geometry.mesh.good_map import USUAL
from niso.geometry.mesh.relaxation import relaxed
from niso.geometry.mesh.skeleton import Skeleton, surface
from niso.geometry.mesh.surface import Mesh, icosphere, vertex_areas

LIMITS = USUAL


def limbed(length: float) -> Mesh:
    """A body with one straight thin limb; a conformal map shrinks its end by about e^(length / radius)."""
    ends = np.array([[[-0.2, 0, 0], [0.2, 0, 0]], [[0, 0, 0], [length, 0, 0.1]]], dtype=float)
    return surface(Skeleton(ends, np.array([[0.3, 0.3], [0.07, 0.06]])), 600)


def test_a_good_map_is_left_as_it_is():
    sphere = icosphere(2)
    found = good_map.find(sphere, LIMITS)
    assert found.repair == "" and found.quality.flipped == found.quality.coincident == 0
    np.testing.assert_array_equal(relaxed(sphere, found.directions), found.directions)
    np.testing.assert_allclose(vertex_areas(sphere) @ found.directions, 0, atol=1e-9)


@pytest.mark.parametrize("inside_out", [False, True])
def test_a_fold_is_smoothed_and_nothing_else_moves(inside_out):
    sphere = icosphere(3)
    folded = sphere.vertices.copy()
    near = np.argsort(-folded @ folded[7])[1:7]
    folded[7] = 2.5 * folded[near[0]] - 1.5 * folded[7]
    folded[7] /= np.linalg.norm(folded[7])
    mesh = Mesh(sphere.vertices, sphere.faces[:, ::-1]) if inside_out else sphere
    assert spherical_map.quality(mesh, folded).flipped > 0
    mended = relaxed(mesh, folded)
    quality = spherical_map.quality(mesh, mended)
    assert quality.flipped == 0 and quality.distortion < 1.1
    np.testing.assert_allclose(np.linalg.norm(mended, axis=1), 1)
    moved = np.linalg.norm(mended - folded, axis=1) > 0
    assert moved[7] and moved.sum() < 60


@pytest.mark.slow
def test_the_end_of_a_thin_limb_is_unfolded():
    shape = limbed(3.0)
    flow = spherical_map.conformal_flow(shape)
    before = spherical_map.quality(shape, spherical_map.centre(flow.directions, vertex_areas(shape))[0])
    assert before.coincident and before.flipped_area > 0.005 and not np.isfinite(before.distortion)
    found = good_map.find(shape, LIMITS)
    assert "relaxed" in found.repair and found.quality.coincident == 0
    assert found.quality.flipped_area <= 0.01 and found.quality.distortion < 20


@pytest.mark.parametrize(
    ("fold", "limits", "message", "limit"),
    [
        (lambda d: d.__setitem__(0, -d[0]), LIMITS, "of its area is flipped, and 1.0% is allowed", "flipped_area"),
        (lambda d: d.__setitem__(0, d[5]), LIMITS._replace(flipped_area=1.0), "1 of its vertices fall on others", ""),
        (lambda d: None, LIMITS._replace(distortion=1.0), r"mean distortion is 1.*, and 1 is allowed", "distortion"),
    ],
    ids=["flipped", "coincident", "distorted"],
)
def test_what_cannot_be_repaired_is_refused(monkeypatch, fold, limits, message, limit):
    monkeypatch.setattr(good_map, "relaxed", lambda mesh, directions: directions)
    sphere = icosphere(1)
    directions = sphere.vertices * [1, 1, 0.8]
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    fold(directions)
    with pytest.raises(good_map.BadMap, match=message) as error:
        good_map.settle(sphere, directions, limits)
    assert error.value.limit == pickle.loads(pickle.dumps(error.value)).limit == limit  # between processes, too


def test_a_radius_that_is_off_is_refused():
    with pytest.raises(InputError, match=r"its radius is off by .* after 24 steps, and 0\.0% is allowed"):
        good_map.find(icosphere(1), LIMITS._replace(radius_error=1e-12))


def test_distortions_of_tiny_images_are_finite_without_a_warning():
    triangle = Mesh(np.array([[0.0, 0, 1], [1, 0, 1], [0, 1, 1]]), np.array([[0, 1, 2]]))
    image = triangle.vertices * [1e-60, 1e-60, 1.0]
    flat = np.array([[0.0, 0, 1], [1, 0, 1], [1 + 1e-9, 0, 1]])
    for place in (image, flat):
        spherical_map.face_qualities(triangle, place)
    assert spherical_map.face_qualities(triangle, image)[1][0] == pytest.approx(1)
    assert spherical_map.face_qualities(triangle, flat)[1][0] == np.inf
