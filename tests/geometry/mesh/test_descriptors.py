"""Descriptors know the intrinsic geometry alone; distances along edges are distances."""

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from niso.errors import InputError
from niso.geometry.mesh.deformation import deform
from niso.geometry.mesh.descriptors import descriptors, distances, wave_kernel_signature
from niso.geometry.mesh.spectrum import Eigenpairs, eigenpairs, laplacian
from niso.geometry.mesh.surface import Mesh, icosphere, torus

LUMPY = deform(torus(24, 12), np.random.default_rng(0), 0.4)
SETTINGS = {"times": 4, "energies": 5, "rank": 20}


def test_they_know_neither_place_nor_size_nor_side():
    values = descriptors(LUMPY, **SETTINGS)
    assert values.shape == (288, 9) and np.isfinite(values).all() and values.std(0).min() > 0.005
    turned = Rotation.from_rotvec([1, 2, 3]).apply(LUMPY.vertices) * 7 + 5
    np.testing.assert_allclose(descriptors(Mesh(turned, LUMPY.faces), **SETTINGS), values, atol=1e-5)
    mirrored = Mesh(LUMPY.vertices * [1, 1, -1], LUMPY.faces[:, ::-1])
    np.testing.assert_allclose(descriptors(mirrored, **SETTINGS), values, atol=1e-5)


def test_another_connectivity_changes_them_little():
    """Half of the quadrilaterals of a torus are halved along their other diagonal."""
    ring = torus(48, 24)
    first, second = ring.faces.reshape(2, -1, 3)  # a, b, c and a, c, d
    others = np.stack([np.column_stack((first[:, :2], second[:, 2])), np.column_stack((first[:, 1:], second[:, 2]))])
    halved = np.where(np.random.default_rng(0).random(len(first))[:, None] < 0.5, others, (first, second))
    settings = {**SETTINGS, "rank": 19}  # which parts no two equal eigenvalues
    one, other = (descriptors(mesh, **settings) for mesh in (ring, Mesh(ring.vertices, halved.reshape(-1, 3))))
    assert (np.abs(one - other).mean(0) < 0.1 * descriptors(LUMPY, **settings).std(0)).all()


def test_waves_are_spread_evenly_on_the_sphere():
    pairs = eigenpairs(laplacian(icosphere(3)), 16)
    signature = wave_kernel_signature(pairs, np.log([1.5, 4.0, 7.0]))
    np.testing.assert_allclose(signature, 1 / (4 * np.pi), rtol=0.02)  # ∫ WKS = 1


def test_waves_of_an_energy_are_those_of_eigenvalues_about_three_steps_around_it():
    """Of two waves, one at each of two points, by hand."""
    pairs = Eigenpairs(np.exp([-np.inf, 0.0, 6.0]), np.array([[1.0, 1, 0], [1, 0, 1]]))
    at_first, at_second = wave_kernel_signature(pairs, np.array([0.0, 2.0, 4.0, 6.0]))
    np.testing.assert_allclose(at_first + at_second, 1)
    assert at_second[0] / at_first[0] == pytest.approx(np.exp(-1 / 2))  # one deviation away
    np.testing.assert_allclose(at_first, at_second[::-1])


def test_of_narrow_bands_the_nearest_waves_are_taken():
    """Every weight is less than the smallest number there."""
    pairs = Eigenpairs(np.exp([-np.inf, 0.0, 6.0]), np.array([[1.0, 1, 0], [1, 0, 1]]))
    at_first, at_second = wave_kernel_signature(pairs, np.linspace(2.999, 3.001, 4))
    np.testing.assert_allclose([at_first, at_second], [[1, 1, 0, 0], [0, 0, 1, 1]], atol=1e-9)


def test_distances_along_edges_are_about_those_on_the_sphere():
    ball = icosphere(3)
    found = distances(ball)
    true = np.arccos(np.clip(ball.vertices @ ball.vertices.T, -1, 1))
    np.testing.assert_allclose(found, found.T)
    np.testing.assert_allclose(distances(Mesh(ball.vertices, np.concatenate([ball.faces, ball.faces[:9]]))), found)
    assert (found >= 0.99 * true - 1e-6).all() and found[0].max() < 1.25 * np.pi


def test_two_surfaces_are_refused():
    two = Mesh(np.concatenate([LUMPY.vertices, LUMPY.vertices + 9]), np.concatenate([LUMPY.faces, LUMPY.faces + 288]))
    with pytest.raises(InputError, match=r"^a has 2 components"):
        descriptors(two, name="a")
    with pytest.raises(InputError, match=r"^b: 20 eigenpairs cannot be taken from 12 vertices"):
        descriptors(icosphere(0), name="b", **SETTINGS)
