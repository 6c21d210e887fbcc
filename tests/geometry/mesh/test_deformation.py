"""Random deformations: smooth, without folds, as strong as asked for."""

from __future__ import annotations

import numpy as np
import pytest

from niso.geometry.mesh import spectrum as mesh_spectrum
from niso.geometry.mesh import surface as meshes
from niso.geometry.mesh.deformation import deform
from niso.geometry.mesh.surface import Mesh


def test_no_strength_changes_nothing_but_place_and_size() -> None:
    ball = meshes.icosphere(2)
    moved = deform(ball, np.random.default_rng(0), 0.0)
    np.testing.assert_allclose(moved.vertices, meshes.unit_area(ball).vertices, atol=1e-12)


def test_the_same_generator_gives_the_same_shape() -> None:
    ball = meshes.icosphere(1)
    one, again, other = (deform(ball, np.random.default_rng(seed), 0.2).vertices for seed in (3, 3, 4))
    np.testing.assert_array_equal(one, again)
    assert np.abs(one - other).max() > 1e-3


@pytest.mark.parametrize("strength", [0.05, 0.1])
def test_strength_is_the_relative_change_of_lengths(strength: float) -> None:
    ball = meshes.unit_area(meshes.icosphere(3))
    changes = []
    for seed in range(30):
        moved = deform(ball, np.random.default_rng(seed), strength)
        changes.append(np.log(meshes.edge_lengths(moved) / meshes.edge_lengths(ball)))
    spread = np.std([change - change.mean() for change in changes])
    assert 0.6 * strength < spread < 1.4 * strength  # fixed area takes some of it


def test_strong_deformations_do_not_fold_space() -> None:
    """Small tetrahedra all over the unit ball keep their orientation."""
    random = np.random.default_rng(0)
    corners = random.uniform(-1, 1, (500, 1, 3)) + 1e-4 * np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]])
    faces = np.array([[0, 2, 1], [0, 1, 3], [1, 2, 3], [0, 3, 2]]) + 4 * np.arange(500)[:, None, None]
    scattered = Mesh(corners.reshape(-1, 3), faces.reshape(-1, 3))
    for seed in range(5):
        moved = deform(scattered, np.random.default_rng(seed), 0.5).vertices.reshape(-1, 4, 3)
        volumes = np.linalg.det(moved[:, 1:] - moved[:, :1])
        assert (volumes > 0).all()
        assert volumes.max() > 2 * volumes.min()


def test_surfaces_stay_closed_and_outside_out() -> None:
    moved = deform(meshes.icosphere(3), np.random.default_rng(0), 0.5)
    meshes.check(moved)
    assert meshes.volume(moved) > 0
    assert meshes.face_areas(moved).sum() == pytest.approx(1)


def test_the_geometry_changes() -> None:
    ball = meshes.unit_area(meshes.icosphere(3))
    values = [
        mesh_spectrum.eigenpairs(mesh_spectrum.laplacian(mesh), 4).eigenvalues[1:]
        for mesh in (ball, deform(ball, np.random.default_rng(0), 0.3))
    ]
    assert np.ptp(values[1]) > 20 * np.ptp(values[0])
